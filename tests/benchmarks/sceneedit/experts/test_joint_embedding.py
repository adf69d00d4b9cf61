"""SceneBag puts what is seen and what is named into one space."""

from functools import cache

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.experts.perception_experts import SceneJointEmbedding
from editcritic.reward.queries import Abstention
from editcritic.reward.queries.kinds import Embed, Embeddings, EmbedText, Region

BAG = SceneJointEmbedding()


@cache
def captioned():
    return cases(24, small_share=0.0)


def vectors(query: Embed | EmbedText) -> Embeddings:
    (answer,) = BAG([query])
    assert isinstance(answer, Embeddings)
    query.check(answer)
    return answer


def test_a_picture_is_nearest_to_its_own_caption():
    captions = [vectors(EmbedText(case.sample.metadata["source_caption"])) for case in captioned()]
    right = 0
    for place, case in enumerate(captioned()):
        seen = vectors(Embed(case.sample.base if case.sample.turn == 1 else case.sample.source, (Region("cls"),)))
        right += max(range(len(captions)), key=lambda one: seen.cosine(captions[one], 0)) == place
    assert right >= len(captioned()) - 1


def test_abstains_on_texts_that_name_nothing_and_on_patches():
    for query in (EmbedText("a dog on a sofa"), Embed(captioned()[0].sample.source, (Region("patches"),))):
        assert isinstance(BAG([query])[0], Abstention)
