import io
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from editcritic.benchmarks.report.ranking import rank_candidates, render_ranking
from editcritic.benchmarks.report.ranking_sheet import SIDE, data_uri, draw, evidence
from editcritic.reward import Box, EditSample, Evidence, Image, Score
from editcritic.reward.missing_inputs import for_command

from ...verifiers.numpy_editor import rejection
from ..conftest import Command, Folder, patched

PICTURE = Image.from_digest("0" * 64, (8, 8))


def sample(name: str, group: str = "one") -> EditSample:
    return EditSample(name, "Remove cup", (PICTURE,), PICTURE, group=group)


def parts(**values: float) -> Score:
    return Score.of(sum(values.values()) / len(values), parts={name: Score.of(value) for name, value in values.items()})


@given(
    st.dictionaries(st.text(min_size=1), st.sampled_from([0.0, 0.25, 0.5, 1.0, None]), min_size=1),
    st.randoms(use_true_random=False),
)
def test_the_order_is_that_of_values_then_ids_wherever_candidates_stood(values, random):
    samples = [sample(name) for name in values]
    random.shuffle(samples)
    scores = [Score.abstained("?") if (v := values[s.id]) is None else Score.of(v) for s in samples]
    (ranking,) = rank_candidates(samples, scores, None)
    expected = sorted(values, key=lambda name: (values[name] is None, -(values[name] or 0.0), name))
    assert [one.sample.id for one in ranking.candidates] == expected
    ranks = [value for name in expected if (value := values[name]) is not None]
    assert [one.rank for one in ranking.candidates] == [*range(1, len(ranks) + 1), *[None] * (len(values) - len(ranks))]
    margins = [value - following for value, following in pairwise(ranks)]
    assert [one.margin for one in ranking.candidates] == [*margins, *[None] * (len(values) - len(margins))]


Drawn = list[tuple[float, bool]]  # values of candidates, and which of them a test changes


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), min_size=2, max_size=7), st.booleans()
)
def test_a_bad_candidate_gains_no_place_by_having_no_value_or_by_a_rejection(drawn: Drawn, fails: bool) -> None:
    best = max(value for value, _ in drawn)
    hidden = {str(number) for number, (value, hides) in enumerate(drawn) if hides and value < best}
    samples = [sample(str(number)) for number in range(len(drawn))]
    known = [Score.of(value) for value, _ in drawn]

    def places(without: Score) -> dict[str, int | None]:
        scores = [without if one.id in hidden else score for one, score in zip(samples, known, strict=True)]
        (ranking,) = rank_candidates(samples, scores, 0.0)
        assert not hidden & {one.sample.id for one in ranking.candidates if one.rank == 1}
        return {one.sample.id: one.rank for one in ranking.candidates}

    (before,) = rank_candidates(samples, known, 0.0)
    ranks = {one.sample.id: one.rank for one in before.candidates}
    unknown = places(Score.failed("no answer") if fails else Score.abstained("?"))
    assert all(unknown[name] is None for name in hidden)
    rejected = places(rejection())
    behind = [rejected[name] for name in hidden]
    assert all(rejected[name] is not None for name in ranks)
    assert sorted(behind, key=lambda rank: rank or 0) == list(range(len(drawn) - len(hidden) + 1, len(drawn) + 1))


@pytest.mark.parametrize("bad", [rejection(), Score.of(0.0)], ids=["rejected", "the lowest value"])
def test_what_is_known_to_be_bad_is_not_the_best_beside_what_could_not_be_judged(bad: Score) -> None:
    samples = [sample(name) for name in "abc"]
    (ranking,) = rank_candidates(samples, [Score.abstained("too dark"), bad, bad], 0.0)
    assert [(one.sample.id, one.rank, one.margin) for one in ranking.candidates] == [
        ("a", None, None), ("b", None, None), ("c", None, None),
    ]  # fmt: skip
    assert ranking.no_best == "2 of 3 candidates were rejected, and the others could not be judged: too dark"
    assert ranking.to_json()["no_best"] == ranking.no_best
    (ranking,) = rank_candidates(samples, [Score.of(0.1), bad, Score.abstained("too dark")], 0.0)
    assert [(one.sample.id, one.rank) for one in ranking.candidates] == [("a", 1), ("b", 2), ("c", None)]
    assert ranking.no_best == ""


def test_in_the_terminal_a_repeated_reason_is_one_line_and_bounds_stand_before_it():
    def waiting(preservation: float) -> Score:
        parts = {"following": Score.abstained("who knows"), "preservation": Score.of(preservation)}
        return Score.abstained("no box of 'cup': give boxes={'cup': ...}", parts=parts)

    (ranking,) = rank_candidates([sample(name) for name in "abc"], [waiting(0.5), waiting(0.25), rejection()], 0.0)
    written = io.StringIO()
    Console(width=200, file=written).print(render_ranking(ranking, lambda text: text.replace("boxes=", "--boxes ")))
    shown = written.getvalue()
    assert "cannot exceed 0.50: no box of 'cup': give --boxes {'cup': ...}" in shown
    assert "cannot exceed 0.25: as above" in shown
    assert "boxes=" not in shown


def test_the_reason_stands_before_the_parts():
    scores = [Score.of(0.9, "well done", parts={"a": Score.of(0.9)}), Score.of(0.2, parts={"a": Score.of(0.2)})]
    (ranking,) = rank_candidates([sample(name) for name in "abc"], [*scores, Score.failed("no server")], 0.0)
    assert [one.reason for one in ranking.candidates] == [
        "well done; ahead in a (0.9 to 0.2)",
        "behind in a (0.2 to 0.9)",
        "no server",
    ]


def test_the_deciding_parts_are_where_a_candidate_falls_behind_and_the_best_is_ahead():
    best = parts(following=0.9, consistency=0.8, style=0.2)
    middle = parts(following=0.9, consistency=0.5, style=0.3)
    (ranking,) = rank_candidates([sample("middle"), sample("best")], [middle, best], 0.0)
    first, second = ranking.candidates
    assert first.deciding_parts == {"consistency": (0.8, 0.5)}
    assert first.reason == "ahead in consistency (0.8 to 0.5)"
    assert second.reason == "behind in consistency (0.5 to 0.8)"


def test_the_tree_of_parts_is_followed_to_its_leaves_from_where_it_branches():
    def gate(cup: float, lamp: float, following: float) -> Score:
        reward = Score.of(
            cup * following, parts={"consistency": parts(cup=cup, lamp=lamp), "following": Score.of(following)}
        )
        return Score.of(cup * following, parts={"guard": Score.of(1.0), "reward": reward})

    (ranking,) = rank_candidates([sample("good"), sample("bad")], [gate(0.9, 0.8, 1.0), gate(0.4, 0.6, 0.7)], 0.0)
    assert ranking.candidates[1].deciding_parts == {
        "reward/consistency/cup": (0.4, 0.9),
        "reward/following": (0.7, 1.0),
    }


def rank_command(folder: Folder, *more: object) -> list[object]:
    options = ["--source", folder / "source.png", "--instruction", "Remove helmet", "--reward", folder.cheap]
    return ["rank", *more, *options]


def test_pictures_and_a_folder_without_the_source_in_it_are_ranked(editcritic: Command, folder: Folder) -> None:
    edits = [folder / f"{name}.png" for name in ("blank", "patched", "copy")]
    result = editcritic(*rank_command(folder, *edits), code=0, shows="ahead in not_blank (1 to 0)")
    assert [line.split()[1] for line in result.stdout.splitlines()[2:]] == ["patched", "blank", "copy"]
    document = json.loads(editcritic(*rank_command(folder, folder.path), "--json").stdout)
    (group,) = document["groups"]
    assert [one["id"] for one in group["candidates"]] == ["patched", "blank", "copy"]
    assert [one["rank"] for one in group["candidates"]] == [1, 2, 3]
    assert [one["margin"] for one in group["candidates"]] == [0.5, 0.0, None]
    assert group["candidates"][0]["deciding_parts"] == {"not_blank": {"own": 1.0, "other": 0.0}}
    assert document["sheet"] is None


def test_names_that_are_not_unique_become_paths(editcritic: Command, folder: Folder) -> None:
    (folder / "more").mkdir()
    patched(0.2).save(folder / "more" / "patched.png")
    result = editcritic(*rank_command(folder, folder / "patched.png", folder / "more" / "patched.png"), "--json")
    names = {one["id"] for one in json.loads(result.stdout)["groups"][0]["candidates"]}
    assert names == {str(folder / "patched.png"), str(folder / "more" / "patched.png")}


def test_a_sample_file_is_ranked_by_groups(editcritic: Command, folder: Folder) -> None:
    samples = folder.samples(
        folder.row(id="a", edited="copy.png", group="second"),
        folder.row(id="b", edited="patched.png", group="first"),
        folder.row(id="c", edited="patched.png", group="second"),
    )
    groups = json.loads(editcritic("rank", samples, "--reward", folder.cheap, "--json").stdout)["groups"]
    assert [(one["group"], [c["id"] for c in one["candidates"]]) for one in groups] == [
        ("second", ["c", "a"]),
        ("first", ["b"]),
    ]


def test_a_copy_is_not_the_best_beside_what_could_not_be_judged(editcritic: Command, folder: Folder) -> None:
    spec = folder / "material.toml"
    spec.write_text('[reward]\nuse = "gate"\nguard.use = "guard-not-a-copy"\nreward.use = "edival-if"\n')
    arguments = ["rank", folder / "patched.png", folder / "copy.png", "--source", folder / "source.png",
                 "--instruction", "Change the material of helmet to glass", "--reward", spec,
                 "--boxes", '{"helmet": [[70, 85, 127, 127]]}', "-o", folder / "sheet.html"]  # fmt: skip
    (group,) = json.loads(editcritic(*arguments, "--json").stdout)["groups"]
    assert [(one["id"], one["value"], one["rank"], one["status"]) for one in group["candidates"]] == [
        ("patched", None, None, "abstained"),
        ("copy", 0.0, None, "scored"),
    ]
    assert all(one["explanation"] for one in group["candidates"])
    assert group["no_best"].startswith("1 of 2 candidates were rejected, and the others could not be judged: ")
    shown = " ".join(editcritic(*arguments).stdout.split())
    assert f"no candidate is the best: {for_command(group['no_best'])}" in shown
    words = re.sub(r"\s+", " ", Reader((folder / "sheet.html").read_text(encoding="utf-8")).words)
    assert f"No candidate is the best: {group['no_best']}" in words
    assert "copy 0.000" in words


def test_a_bad_candidate_is_named_and_the_others_ranked(editcritic: Command, folder: Folder) -> None:
    (folder / "bad.png").write_bytes(b"")
    result = editcritic(
        *rank_command(folder, folder / "bad.png", folder / "patched.png", folder / "gone.png"), "--json"
    )
    assert result.exit_code == 2
    assert "bad.png is empty" in result.stderr
    assert "gone.png: No such file" in result.stderr
    document = json.loads(result.stdout)
    assert len(document["problems"]) == 2
    assert [one["id"] for one in document["groups"][0]["candidates"]] == ["patched"]


EDIT = ("{patched}", "--source", "{source}", "--instruction", "x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (EDIT[:3], "both --source and --instruction"),
        (("{patched}", "{copy}", *EDIT[3:]), "both --source and --instruction"),
        (("{patched}", "--source", "no.png", *EDIT[3:]), "no.png: No such file"),
        (("{nothing}", *EDIT[1:]), "no images in"),
        ((*EDIT, "--boxes", "{{cup"), "--boxes is not JSON"),
        ((*EDIT, "--boxes", "no.json"), "boxes in no.json"),
        ((*EDIT, "--boxes", '{{"cup": [[NaN, 0, 1, 1]]}}'), "NaN is no number of JSON"),
        ((*EDIT, "--boxes", '{{"cup": [[0, 0, 1, 900]]}}'), "lies outside"),
        ((*EDIT, "--reward", "edivl-if"), "edival-if"),
        ((*EDIT, "-o", "{nothing}/a/b.html"), "No such file"),
    ],
)
def test_wrong_usage_is_explained_once(arguments, message, editcritic, folder):
    (folder / "nothing").mkdir()
    names = {name: folder / f"{name}.png" for name in ("patched", "copy", "source")} | {"nothing": folder / "nothing"}
    result = editcritic("rank", *(argument.format(**names) for argument in arguments), code=2)
    assert (result.stderr.count(message), result.stdout) == (1, "")


class Reader(HTMLParser):
    """The text of a page, its tags, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attributes if name in ("src", "href", "data", "srcset")]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture
def page(editcritic: Command, folder: Folder) -> Reader:
    boxes = folder / "boxes.json"
    boxes.write_text('{"helmet": [[70, 85, 127, 127]], "头盔": [[10, 10, 40, 40]]}', encoding="utf-8")
    edits = [folder / name for name in ("patched.png", "copy.png", "blank.png")]
    editcritic(*rank_command(folder, *edits), "--boxes", boxes, "-o", folder / "sheet.html", code=0)
    return Reader((folder / "sheet.html").read_text(encoding="utf-8"))


def test_a_sheet_holds_all_that_it_shows(page: Reader) -> None:
    assert (page.tags.count("img"), len(page.loads)) == (4, 4)
    assert all(source.startswith("data:image/jpeg;base64,") for source in page.loads)
    assert not {"script", "link", "iframe"} & set(page.tags)


def test_a_sheet_shows_order_reasons_parts_and_evidence(page: Reader) -> None:
    words = re.sub(r"\s+", " ", page.words)
    assert words.index("patched 1.000") < words.index("copy 0.500")
    for text in ["Remove helmet", "not_blank", "standard deviation of luminance", "ahead in not_blank", "头盔"]:
        assert text in words


def test_boxes_are_drawn_on_the_picture_where_they_lie() -> None:
    grey = Image.of(PIL.Image.new("RGB", (400, 200), (128, 128, 128)))
    box = Box.from_corners(100, 80, 300, 180, size=(400, 200), label="cup")
    drawn = draw(grey, [box], {"cup": "#0072b2"})
    assert drawn.size == (400, 200)
    for corner in [(101, 130), (298, 130), (200, 81), (200, 178)]:
        assert drawn.getpixel(corner) == (0x00, 0x72, 0xB2)
    assert drawn.getpixel((200, 130)) == drawn.getpixel((50, 130)) == (128, 128, 128)
    assert drawn.getpixel((101, 60)) == (0x00, 0x72, 0xB2)  # its label, above


@pytest.mark.parametrize("size", [(1, 1), (20_000, 100), (25, 5_000), (900, 700)])
def test_pictures_of_any_size_can_be_drawn_on(size: tuple[int, int]) -> None:
    boxes = [Box(0.5, 0.5, 1.0, 1.0, 0.3, "a long name of an object that is in the picture"), Box(0.1, 0.1, 0.0, 0.0)]
    assert max(draw(Image.of(PIL.Image.new("RGB", size)), boxes, {}).size) <= SIDE


def test_a_picture_that_is_gone_by_then_is_left_out() -> None:
    assert data_uri(PICTURE) == ""


def test_the_evidence_of_a_part_and_of_a_credit_of_one_name_is_both():
    part, credit = (Score.of(0.5, evidence=(Evidence(what),)) for what in ("of a part", "of a credit"))
    found = list(evidence(Score.of(0.5, parts={"following": part}, credits={"following": credit})))
    assert found == [("following", Evidence("of a part")), ("following", Evidence("of a credit"))]
