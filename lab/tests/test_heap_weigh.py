"""The weights of samples: by function, their margins of error, and their changes."""

import math
import random
import re

import pytest
from hakmem.heap import weigh
from hakmem.heap.pprof import Profile
from hakmem.heap.symbols import Frame, brief, frame
from hakmem.heap.weigh import Weighed, Weight

NONE = re.compile("(?!)")
USUAL = re.compile(weigh.WRAPPERS)


def stack(*names: str) -> weigh.Stack:
    return tuple(Frame(name, "program", name, "a.c", 10 + n) for n, name in enumerate(names))


def heap(**stacks: int) -> Weighed:
    """A heap from stacks and their bytes; a stack is its functions' names joined by `_`."""
    return Weighed([(stack(*names.split("_")), Weight(n, 1)) for names, n in stacks.items()])


def figures(weighed: Weighed, wrappers: re.Pattern[str] = NONE) -> dict[str, tuple[int, int]]:
    rows = weigh.functions(weighed, wrappers)
    return {row.frame.name: (row.own.bytes, row.total.bytes) for row in rows}


def test_a_function_has_its_own_and_what_it_called_for() -> None:
    found = figures(heap(main_f=70, main_g_f=20, main=10))
    assert found == {"f": (90, 90), "main": (10, 100), "g": (0, 20)}
    assert list(found) == ["f", "main", "g"]


def test_recursion_counts_once() -> None:
    assert figures(heap(main_f_f_f=5)) == {"f": (5, 5), "main": (0, 5)}


def test_what_passes_requests_on_owns_nothing() -> None:
    found = figures(heap(main_load_xmalloc_malloc=8), USUAL)
    assert found["load"] == (8, 8)
    assert found["xmalloc"] == found["malloc"] == (0, 8)
    assert figures(heap(main_load_xmalloc=8))["xmalloc"] == (8, 8)


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        *((n, True) for n in ("malloc", "PyMem_RawMalloc", "Perl_safesysmalloc", "g_realloc")),
        *((n, True) for n in ("operator new[](unsigned long)", "strndup", "CRYPTO_zalloc")),
        ("void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)", True),
        ("<alloc::vec::Vec<T> as core::clone::Clone>::clone", True),
        *((n, False) for n in ("preallocate", "localcalls", "main", "allocate_session")),
        ("bool Store::find(std::string const&)", False),
    ],
)
def test_which_names_pass_on(name: str, passes: bool) -> None:
    charged = weigh.owner((Frame("outer", "p"), frame(name, "p")), USUAL)
    assert (charged.name == "outer") is passes


def test_inlined_code_of_the_language_passes_on_without_its_namespace() -> None:
    inlined = Frame("_M_allocate", "p", file="/usr/include/c++/12/bits/stl_vector.h")
    assert weigh.owner((Frame("main", "p"), inlined), USUAL).name == "main"


def test_where_all_pass_on_the_outermost_owns() -> None:
    assert weigh.owner(stack("xmalloc", "malloc"), USUAL).name == "xmalloc"
    assert weigh.owner((), USUAL).name == "[no stack]"


def test_the_line_is_the_one_that_weighs_most_of_its_own() -> None:
    def at(line: int, *inner: str) -> weigh.Stack:
        return (Frame("f", "p", "f", "a.c", line), *stack(*inner))

    rows = [(at(1), Weight(10, 1)), (at(2), Weight(20, 1)), (at(3, "g"), Weight(500, 1))]
    (found,) = [row for row in weigh.functions(Weighed(rows), NONE) if row.frame.name == "f"]
    assert found.place == "a.c:2"


# ---- how exact ----


def test_what_is_always_sampled_is_exact() -> None:
    assert weigh.weight(4096, 1, 0).variance == 0
    assert weigh.weight(1 << 30, 1, 4096).variance == 0


def test_the_margin_holds_what_sampling_really_does() -> None:
    """Simulated sampling: the estimates spread as the formula says, and 95 % lie in the margin."""
    size, count, interval = 100, 2000, 4096
    chance = 1 - math.exp(-size / interval)
    stream = random.Random(7)
    estimates = [
        sum(stream.random() < chance for _ in range(count)) * size / chance for _ in range(400)
    ]
    spread = math.sqrt(sum((e - count * size) ** 2 for e in estimates) / len(estimates))
    said = math.sqrt(weigh.weight(count * size, count, interval).variance)
    assert said == pytest.approx(spread, rel=0.1)
    margin = weigh.weight(count * size, count, interval).margin
    inside = sum(abs(e - count * size) <= margin for e in estimates) / len(estimates)
    assert 0.92 < inside < 0.98


def test_margins_of_parts_add_up_as_their_squares() -> None:
    one = weigh.weight(1000, 10, 4096)
    assert (one + one).margin == pytest.approx(math.sqrt(2) * one.margin)
    assert (one - one).margin == pytest.approx(math.sqrt(2) * one.margin)
    assert (one - one).bytes == 0


# ---- what changed ----


def test_what_grew_and_what_shrank_are_apart() -> None:
    changed = weigh.change(heap(main_a=5, main_b=9, main_c=1), heap(main_a=8, main_b=2, main_c=1))
    grew, shrank = weigh.grown(changed), weigh.shrunk(changed)
    assert [(s[-1].name, w.bytes) for s, w in grew.stacks] == [("a", 3)]
    assert [(s[-1].name, w.bytes) for s, w in shrank.stacks] == [("b", 7)]


def some(name: str, bytes: int, interval: int) -> Weighed:
    """`bytes` bytes in use below `name`, in blocks of ten bytes."""
    return Weighed([(stack("main", name), weigh.weight(bytes, bytes // 10, interval))])


def both(*parts: Weighed) -> Weighed:
    return Weighed([row for part in parts for row in part.stacks])


def test_changes_by_function_the_largest_first_and_what_chance_can_make() -> None:
    before = both(some("a", 100_000, 512), some("b", 1000, 4096))
    after = both(some("a", 10_000, 512), some("b", 2000, 4096), some("c", 500, 0))
    rows = weigh.changes(before, after, weigh.change(before, after), NONE)
    figures = [("a", -90_000), ("b", 1000), ("c", 500)]
    assert [(row.frame.name, row.change.bytes) for row in rows] == figures
    assert [row.is_clear for row in rows] == [True, False, True]
    assert [row.after.bytes for row in rows] == [10_000, 2000, 500]


def test_what_stayed_in_use_makes_no_change_less_clear() -> None:
    """20 000 bytes of a megabyte are new: clear in one process, where the rest has the same
    samples in both profiles, but within chance between two processes."""
    before, after, new = (some("a", n, 512) for n in (1_000_000, 1_020_000, 20_000))
    (apart,) = weigh.change(before, after).values()
    (same,) = weigh.change(before, after, new, 512).values()
    assert apart.bytes == same.bytes == 20_000
    assert apart.margin > 20_000 > same.margin
    assert same.margin == pytest.approx(new.total.margin)


def test_what_came_and_went_makes_it_less_clear_but_no_more_than_all_there_was() -> None:
    before, after = some("a", 50_000, 512), some("a", 70_000, 512)
    margins = []
    for new in (20_000, 40_000, 10_000_000):
        (found,) = weigh.change(before, after, some("a", new, 512), 512).values()
        margins.append(found.margin)
    assert margins[1] ** 2 == pytest.approx(3 * margins[0] ** 2)  # 40 000 came, 20 000 went
    assert margins[2] == pytest.approx((after.total - before.total).margin)


def test_growth_is_by_the_heaviest_and_the_rest() -> None:
    def profile(second: int) -> Profile:
        time = (100 + second) * 10**9
        return Profile(f"{second}", [], [], time, second * 10**9, 0, {})

    at = [heap(main_a=1, main_b=10, main_c=2), heap(main_a=20, main_b=1, main_c=3)]
    found = weigh.growth([profile(1), profile(3)], at, NONE, most=2)
    assert found.seconds == [1.0, 3.0]
    assert [name.name for name in found.names] == ["a", "b"]
    assert found.bytes == [[1, 20], [10, 1]]
    assert (found.rest, found.highest) == ([2, 3], 24)


# ---- names ----


@pytest.mark.parametrize(
    ("whole", "short"),
    [
        ("main", "main"),
        ("Store::fill(int) const", "Store::fill"),
        ("void std::vector<int, std::allocator<int> >::f<int&&>(int&&)", "std::vector<…>::f<…>"),
        ("operator new(unsigned long)", "operator new"),
        ("(anonymous namespace)::f(int)", "{anonymous}::f"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"),
        ("std::ostream& std::operator<< <char>(std::ostream&)", "std::operator<<<…>"),
        ("bool Foo::operator<(Foo const&) const", "Foo::operator<"),
        ("read_config(int) [clone .constprop.0]", "read_config"),
        ("_PyEval_EvalFrameDefault.part.0", "_PyEval_EvalFrameDefault"),
        ("name[abi:cxx11](int)", "name"),
        ("<module>", "<module>"),
        ("[libx.so+0x12]", "[libx.so+0x12]"),
    ],
)
def test_names_are_short(whole: str, short: str) -> None:
    assert brief(whole) == short


def test_functions_are_the_same_whatever_line_or_clone() -> None:
    clone = frame("f(int) [clone .part.0]", "p", "a.c", 3)
    assert clone == frame("f(int)", "p", "a.c", 9)
    assert clone != frame("f(int)", "other")
    assert frame("operator()", "p", "/x/a.cc").name == "operator() in a.cc"
