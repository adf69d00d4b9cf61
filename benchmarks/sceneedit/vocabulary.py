"""Names of objects and shapes of letters.

The only module that the renderer and the ground truth share with the experts: a detector or a reader would have learned
names and letters too. What a colour, shape or material looks like in pixels is defined on each side separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

COLOURS = ("red", "orange", "yellow", "green", "teal", "blue", "purple", "pink")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring", "star", "heart")
MATERIALS = ("wood", "metal", "fabric", "stone")
"""Besides plain, which names leave out."""
SIGN = "sign"
TEXT = "text"
BACKDROPS = ("sky", "grass", "sand", "night", "brick wall", "water", "snow", "concrete")

LETTER_WIDTH, LETTER_HEIGHT = 3, 5
"""Of a letter, in grains; letters stand one grain apart, and a blank between words is one letter wide."""

_ROWS = """
A .#. #.# ### #.# #.#
B ##. #.# ##. #.# ##.
C .## #.. #.. #.. .##
D ##. #.# #.# #.# ##.
E ### #.. ##. #.. ###
F ### #.. ##. #.. #..
G .## #.. #.# #.# .##
H #.# #.# ### #.# #.#
I ### .#. .#. .#. ###
J ..# ..# ..# #.# .#.
K #.# #.# ##. #.# #.#
L #.. #.. #.. #.. ###
M #.# ### ### #.# #.#
N ##. #.# #.# #.# #.#
O ### #.# #.# #.# ###
P ##. #.# ##. #.. #..
Q .#. #.# #.# .#. ..#
R ##. #.# ##. ##. #.#
S .## #.. .#. ..# ##.
T ### .#. .#. .#. .#.
U #.# #.# #.# #.# ###
V #.# #.# #.# #.# .#.
W #.# #.# ### ### #.#
X #.# #.# .#. #.# #.#
Y #.# #.# .#. .#. .#.
Z ### ..# .#. #.. ###
0 .#. #.# #.# #.# .#.
1 .#. ##. .#. .#. ###
2 ##. ..# .#. #.. ###
3 ##. ..# .#. ..# ##.
4 #.# #.# ### ..# ..#
5 ### #.. ##. ..# ##.
6 .## #.. ### #.# ###
7 ### ..# ..# .#. .#.
8 ### #.# ### #.# ###
9 ### #.# ### ..# ##.
"""

LETTERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {line[0]: tuple(line[2:].split(" ")) for line in _ROWS.strip().splitlines()}
)
"""Letter -> five rows of three, `#` for ink. No two are alike."""

TEXTS = (
    "STOP", "OPEN", "EXIT", "SALE", "TAXI", "CAFE", "PARK", "BANK", "FISH", "ROAD", "MENU", "HOT", "ICE", "TEA",
    "ZOO", "BUS", "BAR", "INN", "SPA", "GYM", "PUB", "WAY", "JAM", "HUT", "KEY", "LAW", "FOX", "VET", "DEN", "SKI",
)  # fmt: skip
"""Texts of signs."""
