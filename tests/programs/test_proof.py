"""The check for proof fails for each program that hakmem does not serve: else it proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from finding import need_program
from preloading import Result, run_under

HELLO = """
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    char *text = malloc(6);
    snprintf(text, 6, "hello");
    puts(text);
    free(text);
    return 0;
}
"""

# Linked at a fixed position, a program that takes malloc's address gets that of its own PLT entry,
# which calls the preloaded malloc. node and other large programs are built like this.
BY_ADDRESS = """
#include <stdio.h>
#include <stdlib.h>
static void *(*volatile allocate)(size_t);
int main(void)
{
    allocate = malloc;
    return allocate(6) == NULL || puts("hello") < 0;
}
"""

# An allocator inside the executable takes precedence over a preloaded one.
OWN_MALLOC = """
#include <stddef.h>
static char pool[1 << 22];
static size_t used;
void *malloc(size_t n)
{
    n = (n + 31) & ~(size_t)15;
    if (used + n > sizeof pool) return NULL;
    used += n;
    return pool + used - n + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n)
{
    char *to = malloc(n);
    for (size_t i = 0; p && to && i < n; i++) to[i] = ((char *)p)[i];
    return to;
}
"""

# The same, with a free that aborts if it is called before main.
NOT_READY = (
    "static int ready;\n"
    + HELLO.replace("{\n", "{\n    ready = 1;\n", 1)
    + OWN_MALLOC.replace("{ (void)p; }", "{ if (p && !ready) abort(); }")
)


def compile_c(source: str, folder: Path, *flags: str) -> Path:
    code, program = folder / "program.c", folder / "program"
    code.write_text(source)
    run_under(None, [need_program("gcc"), "-O1", *flags, code, "-o", program])
    return program


def hello(lib: Path | None, program: Path) -> Result:
    result = run_under(lib, [program])
    assert result.stdout == "hello\n"
    return result


def test_a_served_program_passes(preload: Path, tmp_path: Path) -> None:
    result = hello(preload, compile_c(HELLO, tmp_path))
    result.require_served("program")
    assert len(result.processes) == 1


def test_a_served_program_that_takes_the_address_of_malloc_passes(
    preload: Path, tmp_path: Path
) -> None:
    program = compile_c(BY_ADDRESS, tmp_path, "-fno-pie", "-no-pie")
    hello(preload, program).require_served("program")


def test_without_the_preload_the_check_fails(tmp_path: Path) -> None:
    result = hello(None, compile_c(HELLO, tmp_path))
    with pytest.raises(AssertionError, match="program left no proof"):
        result.require_served("program")


def test_for_a_static_program_the_check_fails(preload: Path, tmp_path: Path) -> None:
    result = hello(preload, compile_c(HELLO, tmp_path, "-static"))
    with pytest.raises(AssertionError, match="program left no proof"):
        result.require_served("program")


@pytest.mark.parametrize("source", [HELLO + OWN_MALLOC, NOT_READY], ids=["its own", "not ready"])
def test_for_a_program_with_its_own_malloc_the_check_fails(
    preload: Path, tmp_path: Path, source: str
) -> None:
    program = compile_c(source, tmp_path, "-rdynamic", "-fno-builtin")
    result = hello(preload, program)
    with pytest.raises(AssertionError, match="its malloc is not hakmem's"):
        result.require_served("program")


def test_a_proof_that_cannot_be_written_is_said(preload: Path, tmp_path: Path) -> None:
    result = run_under(preload, [compile_c(HELLO, tmp_path)], env={"HAKMEM_PROOF": "/dev/full"})
    assert (
        "HAKMEM_PROOF=/dev/full: No space left on device; the proof is not whole" in result.stderr
    )
