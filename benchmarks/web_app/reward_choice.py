"""Components to choose a reward and its experts, with what these would download and need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import gradio as gr

from ...reward.experts.loading.model_registry import bundles
from ..common.errors import InputError
from ..common.markdown import markdown_text
from ..common.reward_catalogue import list_rewards
from .messages import QUICK, errors_as_messages
from .settings import AppSettings


@dataclass(frozen=True, slots=True)
class RewardChoice:
    """reward, experts: their values are specs. allowed: whether downloads are agreed to."""

    reward: gr.Dropdown
    experts: gr.Dropdown
    allowed: gr.Checkbox

    @property
    def inputs(self) -> list[gr.components.Component]:
        """For the inputs of an event: reward, experts, allowed."""
        return [self.reward, self.experts, self.allowed]


def reward_choice(settings: AppSettings, prefix: str) -> RewardChoice:
    """Add the components to the page that is being built. prefix: of their ids on the page."""
    names = list(dict.fromkeys([settings.reward, *_rewards()]))
    packs = list(dict.fromkeys([settings.experts, *bundles()]))
    with gr.Row():
        reward = gr.Dropdown(names, value=settings.reward, label="Reward", elem_id=f"{prefix}-reward")
        experts = gr.Dropdown(packs, value=settings.experts, label="Experts", elem_id=f"{prefix}-experts")
    meaning = gr.Markdown(_meaning(settings.reward), elem_id=f"{prefix}-meaning")
    note = gr.Markdown(_needs(settings, settings.experts), elem_id=f"{prefix}-needs")
    allowed = gr.Checkbox(False, label="Download and load these models", visible=False, elem_id=f"{prefix}-allowed")

    def show(chosen: str) -> tuple[str, gr.Checkbox]:
        with errors_as_messages():
            return _needs(settings, chosen), gr.Checkbox(value=False, visible=_is_to_agree(settings, chosen))

    reward.change(_meaning, reward, meaning, **QUICK)
    experts.change(show, experts, [note, allowed], **QUICK)
    return RewardChoice(reward, experts, allowed)


def require_offered(settings: AppSettings, reward: str, experts: str, allowed: bool) -> None:
    """Raise `InputError` unless the page offered both, and the user agreed to what the experts load: on the page, or by
    naming them at the start. A spec can name modules, addresses and folders, and the page does not know who sends
    it."""
    if reward != settings.reward and reward not in _rewards():
        raise InputError(f"{reward!r:.100} is not an installed reward: name it when you start the app, with --reward")
    if experts != settings.experts and experts not in bundles():
        raise InputError(f"{experts!r:.100} is no bundle: name experts when you start the app, with --experts")
    if _is_to_agree(settings, experts) and not allowed:
        raise InputError(f"{experts} loads models: agree to it below the choice of experts")


@cache
def _rewards() -> Mapping[str, str]:
    """Installed rewards -> what a high score means. Compositions are left out: they need a file that names parts."""
    return {entry.name: entry.summary for entry in list_rewards() if entry.card is not None}


def _meaning(reward: str) -> str:
    summary = _rewards().get(reward.partition("?")[0], "")
    return f"**{markdown_text(reward)}**: {markdown_text(summary)}" if summary else ""


def _is_to_agree(settings: AppSettings, experts: str) -> bool:
    """Whether they load models, and were not named at the start."""
    return experts != settings.experts and any(not entry.is_ready for entry in settings.scorers.plan(experts).entries)


def _needs(settings: AppSettings, experts: str) -> str:
    plan = settings.scorers.plan(experts)
    lines = [f"**{bundle.name}**: {bundle.purpose}. Cannot know: {bundle.unanswered}" for bundle in plan.bundles]
    heavy = [entry for entry in plan.entries if not entry.is_ready]
    for entry in heavy:
        size = "" if not entry.download else f", download {entry.download / 1e9:.1f} GB"
        licence = f", {entry.licence}" if entry.licence else ""
        gate = ", gated: accept its terms on the hub first" if entry.gated else ""
        problem = f": **{markdown_text(entry.problem)}**" if entry.problem else ""
        lines.append(f"- {markdown_text(entry.model or entry.expert)} ({entry.source}{size}{licence}{gate}){problem}")
    if not heavy:
        lines.append("Nothing is downloaded.")
    lines += [f"- {device.verdict}" for device in plan.devices if heavy and device.verdict]
    return "\n".join([*lines[:1], "", *lines[1:]])
