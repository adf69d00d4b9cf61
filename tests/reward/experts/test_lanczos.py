"""Lanczos: equal to Pillow's resampling."""

import numpy as np
import PIL.Image

from editcritic.reward import Engine, ask
from editcritic.reward.experts.upscalers import Lanczos
from editcritic.reward.queries import Upscale, UpscaledImage
from editcritic.reward.score import Score

from ..fakes import picture


def test_a_picture_is_enlarged_as_pillow_does_it():
    image = picture(3, 7, 5)
    (answer,) = Lanczos()([Upscale(image, 4)])
    assert isinstance(answer, UpscaledImage)
    expected = image.pil().resize((28, 20), PIL.Image.Resampling.LANCZOS)
    assert (answer.image.pixels == np.array(expected)).all()


def test_an_engine_takes_what_it_says():
    def program():
        enhanced = yield from ask(Upscale(picture(3, 7, 5), 2))
        return Score.of(enhanced.image.width)

    with Engine() as engine:
        assert engine.submit(program(), {"enhancer": Lanczos()}).result(30).value == 14
