"""The code of malloc and free: instructions, loads and stores, and those of the hit path."""

import os
from pathlib import Path

import pytest
from hakmem.errors import LabError
from hakmem.hotpath import code as hotpath_code
from hakmem.hotpath.code import Instruction
from hakmem.process.children import said as said_by
from standing import PATIENCE_S, need, need_built

LISTING = """
0000000000001000 <malloc>:
    1000:	push   %rbx
    1001:	mov    0x1ea31(%rip),%rax        # 23d98 <table(int)+0x90>
    1008:	mov    %fs:(%rax),%rcx
    100c:	test   %rsi,%rsi
    100f:	je     1030 <malloc+0x30>
    1011:	lea    0x7(%rdi,%rcx,8),%rax
    1016:	add    $0x8,(%rcx,%rax,8)
    101a:	cmp    %rcx,0x218(%rdx,%rax,8)
    101e:	lock cmpxchg %rdx,(%rdi)
    1022:	jmp    1026 <malloc+0x26>
    1024:	call   *0x10(%rax)
    1026:	mov    %rdx,(%rcx,%rax,8)
    102a:	pop    %rbx
    102b:	bnd ret
    102d:	cs nopw 0x0(%rax,%rax,1)
    1030:	jmp    9999 <slow>
"""


def test_what_a_function_is_made_of() -> None:
    code = hotpath_code.describe("malloc", 53, LISTING, is_hakmem=True)
    assert vars(code.whole) == {
        "instructions": 15, "branches": 1, "jumps": 2, "loads": 6, "stores": 3, "calls": 1,
    }  # fmt: skip
    assert vars(code.hit) == {
        "instructions": 13, "branches": 1, "jumps": 1, "loads": 5, "stores": 3, "calls": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("jmp    1026 <malloc+0x26>", "jmp    2000 <slow>", "leaves the function"),
        ("jmp    1026 <malloc+0x26>", "jmp    *%rax", "indirect jump"),
        ("jmp    1026 <malloc+0x26>", "jmp    1000 <malloc>", "does not end"),
        ("pop    %rbx", "call   9999 <slow>", "call lies on the path"),
        ("je     1030 <malloc+0x30>", "syscall", "syscall lies on the path"),
    ],
)
def test_a_path_that_is_no_hit_path_is_not_counted(old: str, new: str, why: str) -> None:
    code = hotpath_code.describe("malloc", 53, LISTING.replace(old, new), is_hakmem=True)
    assert code.hit is None
    assert why in code.why


def test_of_another_library_the_hit_path_is_not_guessed() -> None:
    assert hotpath_code.describe("malloc", 53, LISTING, is_hakmem=False).hit is None


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("mov", "(%rax),%rcx", (True, False)),
        ("mov", "%rcx,(%rax)", (False, True)),
        ("movsq", "%ds:(%rsi),%es:(%rdi)", (True, True)),
        ("addq", "$0x1,0x8(%rax)", (True, True)),
        ("inc", "(%rax)", (True, True)),
        ("cmpq", "$0x0,(%rax)", (True, False)),
        ("cmpxchg", "%rcx,(%rax)", (True, True)),
        ("xchg", "%rcx,(%rax)", (True, True)),
        ("test", "%al,(%rcx,%rdx,4)", (True, False)),
        ("btc", "$0x1,(%rax)", (True, True)),
        ("cmove", "0x8(%rax),%rcx", (True, False)),
        ("sete", "(%rax)", (False, True)),
        ("push", "0x8(%rax)", (True, False)),
        ("call", "*0x8(%rax)", (True, False)),
        ("lea", "0x8(%rax,%rcx,1),%rdx", (False, False)),
        ("prefetcht0", "(%rax)", (False, False)),
        ("movups", "%xmm0,(%rax)", (False, True)),
        ("mov", "%fs:0x0,%rax", (True, False)),
        ("shr", "$0x3,%rax", (False, False)),
        ("ret", "", (False, False)),
    ],
)
def test_loads_and_stores(name: str, operands: str, expected: tuple[bool, bool]) -> None:
    assert hotpath_code.accesses(Instruction(0, name, operands)) == expected


def test_where_a_function_lies() -> None:
    symbols = (
        "0000000000005360 g    DF .text\t0000000000000071  Base        malloc\n"
        "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free\n"
        "0000000000097510 g    DF .text\t0000000000000101  GLIBC_2.2.5 cfree\n"
        "0000000000005400 g    DF .text\t0000000000000000  Base        calloc\n"
    )
    assert hotpath_code.extent(symbols, "malloc") == (0x5360, 0x71)
    with pytest.raises(LabError, match="exports no free"):
        hotpath_code.extent(symbols, "free")
    with pytest.raises(LabError, match="has no size"):
        hotpath_code.extent(symbols, "calloc")


@pytest.mark.built
def test_the_hit_path_of_the_build_is_what_its_own_test_counts() -> None:
    root = Path(__file__).parents[2]
    library = root / "build" / "libhakmem.so"
    need("objdump")
    need_built(library)
    if os.uname().machine != "x86_64":
        pytest.skip("SKIPPED: not x86-64: the hit path is NOT compared with tests/unit/hit_path")
    done = said_by(
        ["python3", root / "tests" / "unit" / "hit_path.py", library], timeout=PATIENCE_S
    )
    said = {c.function: c.hit.instructions for c in hotpath_code.read(library, True) if c.hit}
    counted = {line.partition(",")[0] for line in done.stdout.splitlines()}
    assert said.keys() == {"malloc", "free"}
    assert {f"hit_path: {name}: {n} instructions" for name, n in said.items()} <= counted
