"""YAML that is refused before it can do harm, and numbers as YAML 1.2 has them."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles.files import MOST_DEPTH, load_yaml


def _chain(below: str, length: int) -> str:
    """Mappings of which each repeats what the one before it holds."""
    lines = [f"k{i}: &k{i} {below.format(i - 1)}\n" for i in range(1, length)]
    return "k0: &k0 [1, 2]\n" + "".join(lines)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[" * 100_000, "nesting"),
        ("- " * 5_000 + "1", "levels of nesting"),
        ("{a: " * (MOST_DEPTH + 1) + "1" + "}" * (MOST_DEPTH + 1), "levels of nesting"),
        ("? " * 4_000, "levels of nesting"),
        ("a: &a [*a]", "alias 'a' of nothing before it"),
        (_chain("[*k{0}, *k{0}]", 40), "values"),
        (_chain("[*k{0}]", 70), "levels"),
        ("a: 0x" + "f" * 9_999, "beyond 64 bits"),
        ("a: 99999999999999999999", "beyond 64 bits"),
        ("a: 1\na: 2", "given twice"),
    ],
)
def test_what_could_do_harm_is_refused(text: str, part: str) -> None:
    with pytest.raises(yaml.YAMLError, match=part):
        load_yaml(text)


def test_as_deep_as_allowed_is_read() -> None:
    found, depth = load_yaml("[" * MOST_DEPTH + "]" * MOST_DEPTH), 1
    while found:
        [found] = found
        depth += 1
    assert depth == MOST_DEPTH


def test_aliases_are_read() -> None:
    assert load_yaml("a: &x [1, 2]\nb: *x\nc: [*x, *x]")["c"] == [[1, 2], [1, 2]]


@given(st.floats(1, 9), st.integers(-20, 20))
def test_a_power_of_ten_is_a_number(mantissa: float, exponent: int) -> None:
    text = f"{mantissa:.3f}e{exponent}"
    assert load_yaml(f"a: {text}") == {"a": float(text)}
    assert load_yaml("a: 1e6") == {"a": 1e6}


words = st.text("abc é", max_size=5)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_what_was_written_is_read(data: object) -> None:
    assert load_yaml(yaml.safe_dump(data)) == data
