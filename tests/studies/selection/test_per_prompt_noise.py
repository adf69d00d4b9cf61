"""Noise of its own for every prompt: another for another prompt, the same in pieces, and as much of it."""

from editcritic.verifiers import BestOfN, Journal, select
from editcritic.verifiers.selection import NoiseSpec, StepwiseEditor
from editcritic.verifiers.selectors import SuccessiveHalving, ZeroOrderSearch
from studies.selection.per_prompt_noise import PerPromptNoise
from tests.verifiers.numpy_editor import Painter, graded, scenes


def test_prompts_draw_other_noise_and_each_the_same_every_time():
    painter = Painter()
    one, other = scenes(2)
    editor = PerPromptNoise(painter)
    assert isinstance(editor, StepwiseEditor)
    editor.edit([one.sources, other.sources, one.sources], ["a", "a", "b"], [0, 0, 0])
    editor.edit([one.sources], ["a"], [3])
    seeds = [seed for _, seed in painter.requests]
    assert len(set(seeds)) == 4
    assert seeds[3] == seeds[0] + 3


def test_whole_pictures_and_pieces_are_the_same():
    samples = scenes(3)
    whole = select(BestOfN(6), samples, editor=PerPromptNoise(Painter()), reward=graded())
    pieces = select(SuccessiveHalving(6, (2, 5), (5, 4)), samples, editor=PerPromptNoise(Painter()), reward=graded())
    for all_of_them, some in zip(whole, pieces, strict=True):
        pictures = {one.id: one.picture for one in all_of_them.candidates}
        assert sum(one.status == "made" for one in some.candidates) == 4
        assert all(one.picture == pictures[one.id] for one in some.candidates if one.status == "made")


def test_neighbours_are_neighbours_of_the_moved_noise():
    sample = scenes(1)[0]
    painter = Painter()
    editor = PerPromptNoise(painter)
    noise = NoiseSpec(5)
    near = noise.perturbed(9, 0.4)
    (draft,) = editor.begin([sample.sources], [sample.instruction], [near])
    assert draft.noise == near
    editor.edit([sample.sources], [sample.instruction], [0])
    by = painter.requests[-1][1]
    (same,) = Painter().begin([sample.sources], [sample.instruction], [NoiseSpec(5 + by).perturbed(9 + by, 0.4)])
    assert (draft.arrays["latents"] == same.arrays["latents"]).all()


def test_a_journal_goes_on_with_what_was_moved():
    with Journal() as journal:
        first = select(
            ZeroOrderSearch(2, 2), scenes(2), editor=PerPromptNoise(Painter()), reward=graded(), journal=journal
        )
        again = select(
            ZeroOrderSearch(2, 2),
            scenes(2),
            editor=PerPromptNoise(Painter(broken=True)),
            reward=graded(),
            journal=journal,
        )
    assert [one.to_json() for one in first] == [one.to_json() for one in again]
