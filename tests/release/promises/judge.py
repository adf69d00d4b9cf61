"""`judge` asks a served model: here one on loopback that always says yes."""

from tests.reward.experts.http_server import Answer, completion, serving

from .commands import INSTRUCTION, draw, editcritic

draw()
with serving(lambda request, number: Answer(completion("Yes"))) as server:
    experts = f"judge=openai:{server.url}?model=any"
    pair = ["before.png", "after.png", INSTRUCTION]
    said = editcritic("score", *pair, "--reward", "judge-yes-no", "--experts", experts)
    assert "1.00" in said, said
    assert server.requests, "nobody was asked"
