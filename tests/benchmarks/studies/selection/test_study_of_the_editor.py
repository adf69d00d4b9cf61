"""The study of selectors on the tiny editor, from end to end."""

from editcritic.benchmarks.studies.selection import selection_study as studying
from editcritic.benchmarks.studies.selection.selection_study import SelectionSeedRun
from editcritic.verifiers import BestOfN, SequentialEditing

NEEDS = ("torch", "diffusers")


def test_a_seed_of_the_study_runs_and_goes_on_from_its_journal(monkeypatch, tmp_path):
    monkeypatch.setattr(studying, "MAX_CANDIDATES", 2)
    monkeypatch.setattr(studying, "COMPOUND_LEVEL", 2)
    monkeypatch.setattr(studying, "SINGLE_EDIT_SELECTORS", {"best-of-1": BestOfN(1), "best-of-2": BestOfN(2)})
    monkeypatch.setattr(studying, "COMPOUND_SELECTORS", {"sequential": SequentialEditing(1)})
    work = SelectionSeedRun(7, 2, 1, tmp_path)
    study, steps = work.run()
    assert study.evaluation_share("best-of-1") == 0.5
    assert study.evaluation_share("best-of-2") == 1.0
    assert (study.values("best-of-2") >= study.values("best-of-1")).all()
    assert [one.nfe for one in steps["sequential"]] == [16]
    again, _ = work.run()
    assert again.outcomes == study.outcomes
