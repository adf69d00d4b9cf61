"""Derived figures that the papers print follow from the cells beside them, by the functions that our tables use."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.suites.bootstrap import plain_mean, pooled_mean
from editcritic.benchmarks.suites.complexedit.suite import overall as complexedit_overall
from editcritic.benchmarks.suites.dlebench import suite as dlebench
from editcritic.benchmarks.suites.dlebench.reader import TYPES as DLEBENCH_TYPES
from editcritic.benchmarks.suites.edival import tables as edival
from editcritic.benchmarks.suites.gedit import suite as gedit
from editcritic.benchmarks.suites.i2ibench.reader import CATEGORIES
from editcritic.benchmarks.suites.i2ibench.suite import OVERALL, title_of
from editcritic.benchmarks.suites.imgedit import suite as imgedit
from editcritic.benchmarks.suites.suite import published_figures
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.metrics.viescore.metrics import overall as viescore_overall
from studies.validity.metric_selection import spearman

WITHIN = 0.011
"""A unit of the last printed digit, and rounding."""


def tables(suite: str) -> dict[str, Any]:
    printed: dict[str, Any] = published_figures(suite)["tables"]
    return printed


def noted(suite: str, *words: str) -> bool:
    return any(all(word in note for word in words) for note in published_figures(suite)["notes"])


def mean(numbers: Sequence[float]) -> float:
    """As our tables compute a plain mean."""
    return float(plain_mean(*(np.array([value]) for value in numbers))[0])


# -- Complex-Edit -----------------------------------------------------------------------------------------------------


def test_complexedits_o_is_the_arithmetic_mean_of_the_three_and_not_the_geometric():
    printed = tables("complexedit")
    levels = [level for name in ("table4_real", "table5_synthetic") for level in printed[name].values()]
    rows = [*chain(*(level.values() for level in levels)), *printed["table3_C8_real"].values()]
    assert len(rows) == 2 * 4 + 2 * 5 + 6
    for *parts, o in rows:
        assert complexedit_overall(*parts) == pytest.approx(o, abs=WITHIN)
    off = [o for *parts, o in rows if complexedit_overall(*parts, mean="geometric") != pytest.approx(o, abs=WITHIN)]
    assert len(off) > 15


# -- DLEBench ---------------------------------------------------------------------------------------------------------


def test_dlebenchs_types_counts_and_averages_are_the_papers():
    printed = tables("dlebench")
    assert dict(DLEBENCH_TYPES) == printed["counts_table2"]
    for criterion in ("IF", "VC"):
        cells = printed["table4"][criterion]
        for model, average in cells[dlebench.AVERAGE].items():
            assert mean([cells[kind][model] for kind in DLEBENCH_TYPES]) == pytest.approx(average, abs=WITHIN), model
    following, consistency = (printed["table4"][name] for name in ("IF", "VC"))
    table_1 = printed["table1_mean_of_if_vc"]
    cells = [(kind, model) for kind in (*DLEBENCH_TYPES, dlebench.AVERAGE) for model in table_1[kind]]
    assert len(cells) == 80
    for kind, model in cells:
        both = mean([following[kind][model], consistency[kind][model]])
        assert both == pytest.approx(table_1[kind][model], abs=WITHIN), (kind, model)


# -- GEdit-Bench ------------------------------------------------------------------------------------------------------


def gedit_rows() -> Iterator[tuple[str, list[float]]]:
    for version in ("first_version", "later_version"):
        for language, sets in tables("gedit")[version].items():
            for subset, models in sets.items():
                yield from ((f"{version}, {language}, {subset}, {model}", row) for model, row in models.items())


def test_gedits_rows_and_counts_are_there_and_no_overall_is_above_the_root_of_the_means():
    """A mean of roots of products is at most the root of the product of the means (Cauchy and Schwarz)."""
    named, counts = dict(gedit_rows()), tables("gedit")["counts_by_type"]
    assert len(named) == 2 * (8 + 4) + 2 * (9 + 5)
    roots = [(viescore_overall(sc, pq), o) for row in named.values() for sc, pq, o in (row[:3], row[3:])]
    assert all(o <= root + 0.0006 for root, o in roots)
    assert sum(root != pytest.approx(o, abs=0.05) for root, o in roots[::2]) > 40, "it is no root of means"
    assert list(counts) == list(gedit.TYPES)
    assert sum(counts.values()) == tables("gedit")["instances"]["full"]


def test_gedits_overall_is_the_plain_mean_of_the_types():
    printed = tables("gedit")
    first, later = printed["first_version"], printed["later_version"]
    for subset, by_type in printed["figure_types_first_version"]["en"]["Step1X-Edit"].items():
        assert sorted(by_type) == sorted(gedit.TYPES)
        assert mean(list(by_type.values())) == pytest.approx(first["en"][subset]["Step1X-Edit"][2], abs=0.005)
    for language, sets in printed["figure7_numbers_later_version"]["Step1X-Edit-v1.1"].items():
        for subset, numbers in sets.items():
            assert len(numbers) == len(gedit.TYPES)
            assert mean(numbers) == pytest.approx(later[language][subset]["Step1X-Edit-v1.1"][2], abs=0.0006)
    table = printed["ovis_u1_types_full_en"]
    assert table["columns"] == [*gedit.TYPES, gedit.AVERAGE]
    assert all(mean(types) == pytest.approx(average, abs=0.0006) for *types, average in table["rows"].values())
    full = first["en"]["full"]
    assert {model for model in full if full[model][2] != table["rows"][model][-1]} == {"OmniGen"}
    assert noted("gedit", "but for OmniGen, 5.062 instead of 5.061")


# -- I2I-Bench --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "multi", "count"), [("table1_single", False, 9), ("table2_multi", True, 4)])
def test_i2ibenchs_overall_is_weighted_by_the_quotas_of_our_dimensions(name, multi, count):
    table = tables("i2ibench")[name]
    ours = {title_of(name): one.quota for name, one in DIMENSIONS.items() if one.multi == multi and one.in_overall}
    assert (ours, [*ours, OVERALL]) == (table["prompt_quota"], table["columns"])
    quotas = [np.array([float(quota)]) for quota in table["prompt_quota"].values()]
    assert len(table["rows"]) == count
    for model, (*values, printed) in table["rows"].items():
        assert pooled_mean([np.array([value]) for value in values], quotas)[0] == pytest.approx(printed, abs=0.005), (
            model
        )


def test_i2ibenchs_mean_correlations_are_plain_and_figure_4_has_our_categories():
    printed = tables("i2ibench")
    correlations = [
        printed["table3_pearson"][half][judge] for half in ("single", "multi") for judge in ("ours", "lmm_baseline")
    ]
    for *values, average in (*correlations, printed["table6_pearson"]["single"]["lmm4edit"]):
        assert np.mean(values) == pytest.approx(average, abs=0.0001)
    titles = {category.title for category in CATEGORIES.values()}
    for editor, dimensions in printed["figure4_categories"].items():
        table = next(table for table in printed.values() if editor in table.get("rows", {}))
        assert dimensions.keys() <= set(table["columns"])
        assert {name for cells in dimensions.values() for name in cells} <= titles | {"highest", "lowest"}


# -- ImgEdit-Bench ----------------------------------------------------------------------------------------------------

IMGEDIT_DIFFERING = {
    ("leaderboard", "Kontext-dev"): (3.727, 3.684),
    ("leaderboard", "Ovis-U1"): (3.992, 3.955),
    ("leaderboard", "GPT-4o-Image"): (4.244, 4.191),
    ("ovis_u1", "GPT-4o"): (4.244, 4.191),
    ("ovis_u1", "MagicBrush"): (1.828, 1.894),
    ("ovis_u1", "Ovis-U1"): (4.023, 4.004),
}
"""Rows whose printed Overall is not the mean of their types; that mean, and the one weighted by counts."""


def test_imgedits_overall_is_the_plain_mean_of_the_types_but_where_it_is_listed():
    printed, by_name = tables("imgedit"), {str(kind): count for kind, count in imgedit.TYPE_COUNTS.items()}
    counts = [by_name[kind] for kind in imgedit.COLUMNS]
    assert printed["columns"] == [*imgedit.COLUMNS.values(), imgedit.OVERALL]
    rows = {(name, model): row for name in ("leaderboard", "ovis_u1") for model, row in printed[name].items()}
    assert len(rows) == 24
    off = {
        key: (round(mean(types), 3), round(float(np.average(types, weights=counts)), 3))
        for key, (*types, overall) in rows.items()
        if abs(mean(types) - overall) > 0.0051
    }
    assert off == IMGEDIT_DIFFERING
    assert all(noted("imgedit", f"{key[1]} {rows[key][-1]:g} ({plain:.3f})") for key, (plain, _) in off.items())
    ours, theirs = printed["leaderboard"], printed["ovis_u1"]
    differing = {model for model in ours.keys() & theirs.keys() if ours[model] != theirs[model]}
    assert differing == {"MagicBrush", "BAGEL", "Ovis-U1"}
    assert noted("imgedit", *differing)


# -- EdiVal -----------------------------------------------------------------------------------------------------------

TURNS = (0, 1, 2)
TYPES = (
    *("subject_replace", "subject_remove", "material_alter", "color_alter", "subject_add"),
    *("text_change", "position_change", "count_change", "background_change"),
)


def test_edivals_o_and_cc_of_all_models_and_turns_follow_from_their_parts():
    printed = tables("edival")
    rows, halves = printed["table3_latency_if_cc_o"], printed["table22_consistency_objdino_bgdino_objl1_bgl1"]
    success = printed["table16_image_success_and_task_rate"]
    assert len(rows) == 13
    assert halves.keys() == rows.keys()
    for model, row in rows.items():
        assert row["EdiVal-IF"] == success[model][:3], model
        for turn in TURNS:
            o = edival.overall(row["EdiVal-IF"][turn], row["EdiVal-CC"][turn])
            assert float(o) == pytest.approx(row["EdiVal-O"][turn], abs=WITHIN), (model, turn)
            cc = edival.consistency(halves[model][turn], halves[model][3 + turn])
            assert float(cc) == pytest.approx(row["EdiVal-CC"][turn], abs=WITHIN), (model, turn)


def test_edivals_section_1_orders_editors_by_o_over_turns_and_table_3_by_the_last_turn():
    rows = tables("edival")["table3_latency_if_cc_o"]
    over = {name: float(edival.overall_over_turns(row["EdiVal-IF"], row["EdiVal-CC"])) for name, row in rows.items()}
    by_hand = {  # of Seedream: (75.93 + 55.58 + 41.59) / 3 and (92.51 + 88.03 + 85.86) / 3
        "Seedream 4.0": (57.70 * 88.80) ** 0.5,
        "Nano Banana": (52.2367 * 91.29) ** 0.5,
        "FLUX.1-Kontext-max": (49.4033 * 91.0767) ** 0.5,
        "GPT-Image-1": (55.4533 * 78.0933) ** 0.5,
    }
    assert {name: over[name] for name in by_hand} == pytest.approx(by_hand, abs=1e-3)
    first = [*by_hand]
    assert sorted(over, key=lambda name: -over[name])[:4] == first
    assert sorted(rows, key=lambda name: -rows[name]["EdiVal-O"][2])[:4] == [*first[:2], first[3], first[2]]


def test_edivals_task_rates_follow_from_rates_and_counts_of_types():
    """But for models behind an interface that refuses some pictures: the counts of Table 2 are not theirs."""
    printed, kinds = tables("edival"), tables("edival")["table2_type_counts_T1_T2_T3"]
    for name, complex_mode, expected in (
        (
            "table16_image_success_and_task_rate", False,
            {"Seedream 4.0", "Nano Banana", "GPT-Image-1", "FLUX.1-Kontext-max", "Gemini 2.0 Flash"},
        ),
        ("table19_complex_image_task_marginal", True, {"GPT-Image-1", "Nano Banana", "Gemini 2.0 Flash"}),
    ):  # fmt: skip
        off = set()
        for model, row in printed[name].items():
            for turn in TURNS:
                counts = [sum(kinds[kind][turn * (not complex_mode) : turn + 1]) for kind in TYPES]
                rate = float(pooled_mean(type_rates(model, turn, complex_mode=complex_mode), counts))
                off |= {model} if rate != pytest.approx(row[3 + turn], abs=WITHIN) else set()
        assert off == expected


def test_edivals_tool_swaps_correlate_task_rates_and_cc():
    printed, swaps = tables("edival"), tables("edival")["table6_tool_swap_pearson_spearman"]
    settings, usual = printed["table8_thresholds_img_task_overall"], printed["table3_latency_if_cc_o"]
    pairs = {
        swap: [chain(*(row[3:] for row in settings[name].values())) for name in ("default", swap)]
        for swap in ("threshold_0.4", "threshold_0.3", "no_large_box_filter")
    }
    swapped = printed["table10_cc_dinov2"]
    pairs["dinov2_cc"] = [chain(*(usual[model]["EdiVal-CC"] for model in swapped)), chain(*swapped.values())]
    for name, sides in pairs.items():
        one, other = map(list, sides)
        found = [
            float(bench_library("scipy.stats").pearsonr(one, other).statistic),
            spearman([*zip(one, other, strict=True)]),
        ]
        assert found == pytest.approx(swaps[name], abs=WITHIN), name


def test_edivals_contradictions_are_noted():
    printed = tables("edival")
    success = printed["table16_image_success_and_task_rate"]
    assert {model for model, row in success.items() if row[0] != row[3]} == {"UltraEdit", "AnyEdit"}
    assert noted("edival", "UltraEdit", "AnyEdit", "image rate")
    off = {
        (model, turn + 1)
        for model, row in printed["table4_vq_vqdelta"].items()
        for turn in TURNS
        if float(edival.relative_change(row[turn], 4.384)) != pytest.approx(row[3 + turn], abs=WITHIN)
    }
    assert off == {("GPT-Image-1", 1), *(("FLUX.1-Kontext-max", turn) for turn in (1, 2, 3))}
    for words in (("FLUX.1-Kontext-max", "GPT-Image-1"), ("Tables 6 and 7", "IP2P"), ("37.97",), ("O.4",)):
        assert noted("edival", *words)


def type_rates(model: str, turn: int, *, complex_mode: bool = False) -> list[float]:
    """Of the nine types at a turn, in the order of the two tables."""
    first, second = ("table20_complex_success", "table21_complex_success") if complex_mode else (
        "table17_task_success", "table18_task_success"
    )  # fmt: skip
    names = (f"{first}_replace_remove_material_color_add", f"{second}_text_position_count_background")
    return [rate for name in names for rate in tables("edival")[name][model][turn::3]]
