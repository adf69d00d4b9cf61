"""The study of selectors on the tiny editor, from end to end."""

from editcritic.benchmarks.selection import study as studying
from editcritic.benchmarks.selection.study import Work
from editcritic.verifiers import BestOf, Sequential

NEEDS = ("torch", "diffusers")


def test_a_seed_of_the_study_runs_and_goes_on_from_its_journal(monkeypatch, tmp_path):
    monkeypatch.setattr(studying, "N", 2)
    monkeypatch.setattr(studying, "LEVEL", 2)
    monkeypatch.setattr(studying, "SINGLE", {"best-of-1": BestOf(1), "best-of-2": BestOf(2)})
    monkeypatch.setattr(studying, "COMPOUND", {"sequential": Sequential(1)})
    work = Work(7, 2, 1, tmp_path)
    study, steps = work.done()
    assert study.share("best-of-1") == 0.5
    assert study.share("best-of-2") == 1.0
    assert (study.values("best-of-2") >= study.values("best-of-1")).all()
    assert [one.evaluations for one in steps["sequential"]] == [16]
    again, _ = work.done()
    assert again.outcomes == study.outcomes
