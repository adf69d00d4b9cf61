"""`quantised` loads a judge in 4 and 8 bits, in less memory."""

from pathlib import Path

from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import Judge, Message, Reply, YesNo
from tests.reward.experts.tiny_vlms import tiny_llava
from tests.reward.fakes import picture

tiny_llava(Path("judge"), seed=5, width=128)
question = Judge((Message(("Is the circle red?", picture(0, 40, 40))),), YesNo())
full = Vlm("judge", dtype="float32", min_option_mass=0.0)
full([question])
for quantisation in ("nf4", "int8"):
    small = Vlm("judge", dtype="float32", min_option_mass=0.0, quantisation=quantisation)
    (reply,) = small([question])
    assert isinstance(reply, Reply), reply
    assert small.bytes["cpu"] < full.bytes["cpu"], (quantisation, small.bytes, full.bytes)
