"""Questions for judges behind a local server, and what is sent to it."""

import base64
from typing import Any

from editcritic.reward import Card, EditSample, Image, Program, Reward, Score, ask
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import Grade, Judge, Message, YesNo

from ..fakes import picture
from .http_server import Loopback


def question(form: Any = None, draw: int = 0, *parts: Any) -> Judge:
    return Judge((Message(parts or ("Is it good?", picture(1))),), form or YesNo(), draw=draw)


def judge(server: Loopback, **options: Any) -> OpenAIJudge:
    return OpenAIJudge("m", server.url, **{"timeout_s": 5.0, "retries": 2, **options})


def texts(replies: Any) -> list[str]:
    return [reply.text for reply in replies]


def words_of(body: Any) -> str:
    return next(part["text"] for part in body["messages"][0]["content"] if part["type"] == "text")


def image_parts(body: Any) -> list[dict[str, Any]]:
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    return [part for content in contents for part in content if part["type"] == "image_url"]


def shown(body: Any) -> list[Image]:
    return [Image.of(base64.b64decode(part["image_url"]["url"].partition(",")[2])) for part in image_parts(body)]


class Asking:
    """Asks the judge for a grade of the edit, with its source where there is one."""

    card = Card("asking", 1, "asks a judge", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        query = Judge((Message((*sample.sources, sample.edited, sample.instruction)),), Grade())
        reply = yield from ask(query)
        return Score.of(int(reply.text) / 10)


def scored(expert: Any, *batches: list[EditSample], **options: Any) -> list[Any]:
    """The scores of each batch, by a reward that asks this judge."""
    reward = Reward(Asking(), {"judge": expert}, **options)
    try:
        return [reward(batch) for batch in batches]
    finally:
        reward.engine.close()
