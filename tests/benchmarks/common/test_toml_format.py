from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.run.run_settings import format_toml
from editcritic.reward.toml_files import tomllib

PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_what_is_written_as_toml_is_read_back(table):
    assert tomllib.loads(format_toml(table)) == table
