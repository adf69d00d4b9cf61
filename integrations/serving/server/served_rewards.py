"""The rewards of one server: built from specs, on one engine, with the same experts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....reward import Engine, Reward, default_experts, load_experts
from ....reward.config import read_spec
from ....reward.queries.specs import Spec

NAMED_REWARD = re.compile(r"([A-Za-z_][\w.-]*)=(.+)")
"""A reward with a name of its own, as in mine=any-edit."""


def served_rewards(specs: Sequence[str], experts: Sequence[str] | None, engine: Engine) -> dict[str, Reward]:
    """Rewards by name, on one engine and shared experts, unless a file names its own.

    specs: a spec or a TOML file, with a name or without, as in mine=any-edit. experts: as in `load_experts`. Raises
    ValueError for what is none, and for two of one name, and ImportError for a missing package.
    """
    rewards: dict[str, Reward] = {}
    shared = load_experts(experts, default_experts()) if experts else default_experts()
    for text in specs:
        named = NAMED_REWARD.fullmatch(text)
        target = named[2] if named else text
        spec: Spec = read_spec(target) if target.endswith(".toml") else target
        own = isinstance(spec, Mapping) and "experts" in spec and not experts
        options: dict[str, Any] = {} if own else {"experts": shared}
        reward = Reward.of(spec, engine=engine, **options)
        name = named[1] if named else reward.__name__
        if name in rewards:
            raise ValueError(f"two rewards have the name {name}: rename one, as in --reward mine={text}")
        rewards[name] = reward
    return rewards
