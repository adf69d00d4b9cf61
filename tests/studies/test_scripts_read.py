"""The table of scripts by reader."""

from studies import scripts_read


def test_a_row_says_what_is_read_and_what_is_not_asked(monkeypatch, capsys):
    words = {"Latin": "garden TEN", "Cyrillic": "окно сад", "Vietnamese": "phở mười", "Han": "花园"}
    monkeypatch.setattr(scripts_read, "WORDS", words)
    scripts_read.main([])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| Latin | 2 of 2 |",
        "| Cyrillic | 0 of 2, abstains on 2 |",
        "| Vietnamese | 0 of 2, abstains on 2 |",
        "| Han | no font |",
    ]
