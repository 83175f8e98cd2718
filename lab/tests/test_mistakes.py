"""Wrong command lines are refused in one clear line, before anything is measured or recorded.

A row is the exit status, the command, and words of the line. Mistakes that need more than the
stand-in build, such as files, are in the tests of their command.
"""

import shlex

import pytest
from standing import Stand, refused

MISTAKES = """
2 | ab --bench prodcons | one cell is nothing to compare
2 | ab --b X=1 | what shall they run?
2 | ab --b X=1 --bench nope | unknown benchmark: nope; known: aligned
2 | ab --b X=1 --bench larson | names 4 benchmarks, choose one
2 | ab --b nope --bench prodcons | unknown library: nope; known: hakmem, hakmem-checked, system
2 | ab --b LD_PRELOAD=x --bench prodcons | LD_PRELOAD is the lab's own
2 | ab --b x=/old/lib.so | a library's file is named by lib=/old/lib.so name=x
2 | ab --a B=/old/lib.so.1 --b '' | is named by lib=/old/lib.so.1 name=B
2 | ab --b LIB=/old/lib.so | is named by lib=/old/lib.so
2 | ab --b LIB=system | LIB is no variable, and none of lib, bench, name; a cell is
2 | ab --b before=system | before is no variable, and none of lib, bench, name
2 | ab --b 'system hakmem' | lib is given twice: system, hakmem
2 | ab --b 'name=x name=y' | name is given twice: x, y
2 | ab --b "X='" --bench prodcons | No closing quotation
2 | ab --aa --b X=1 --bench prodcons | leave --b out
2 | ab --b X=1 --plant 0.1 --bench burst | --plant is for --aa
2 | ab --b X=1 --bench prodcons --metric x | unknown metric: x; known here: user
2 | ab --b X=1 --bench prodcons --floor null | prodcons has no null floor
2 | ab --b X=1 --bench prodcons --floor x | unknown floor: x
2 | ab --b X=1 --bench prodcons --guard prodcons | a guard is the target
2 | ab --b X=1 --metric 'regex:(' -- true | not a regular expression: '('
2 | ab --max-blocks 8 --b X=1 --b X=2 --b X=3 --bench burst | 8 blocks can decide nothing over 3
2 | ab --max-blocks 8 --b X=1 --b X=2 --b X=3 --bench burst | --max-blocks 9 or more
2 | ab --b lib=/no/such.so --bench prodcons | not found: /no/such.so (check the path)
2 | ab --pass PATH=/bin --b X=1 -- true | --pass PATH=/bin: takes the name alone
2 | ab --pass PATH --b X=1 --bench burst | --pass PATH is for a command of yours
127 | ab --b X=1 -- no-such-program | command not found: no-such-program
2 | baseline 1 2 3 4 | OPS SLOTS SEED are expected, not 4 numbers
2 | baseline 5 0 | must be at least 1: slots 0
2 | baseline --range 64-32 | --range is MIN-MAX in bytes, such as 16-1040, not '64-32'
2 | baseline --range 64 | not '64'
2 | baseline --range 0-64 | not '0-64'
2 | bisect HEAD~1 HEAD | what shall run?
2 | bisect HEAD~1 HEAD --bench larson_1 -- true | what shall run?
2 | bisect HEAD~1 HEAD --build make -- true | name it with --repo
2 | bisect HEAD~1 HEAD --repo . --bench larson_1 | has its own program
2 | bisect --pass PATH --bench burst HEAD~1 HEAD | --pass PATH is for a command of yours
2 | compare | which program?
2 | compare | --suite or --programs
127 | compare -- no-such-program | command not found
2 | compare --metric idle -- true | unknown metric: idle
2 | compare --rival nope -- true | unknown library: nope
2 | compare --lib x=/no/such.so -- no-such-program | a library's file is named by lib=
2 | compare --lib /no/such.so -- true | not found: /no/such.so (check the path)
2 | compare --pass LAB_NONE -- true | --pass LAB_NONE: takes the name alone
2 | compare --pass PATH --bench burst | --pass PATH is for a command of yours
2 | compare --pass PATH --programs jq | --pass PATH is for a command of yours
2 | compare --bench nope | unknown benchmark: nope
2 | compare --bench latency_* | latency_*: by its whole name only: latency_1, latency_2
2 | compare --resume | --resume is for tables
2 | compare --suite --resume --rival system | nothing to resume
2 | compare --suite --programs | two tables
2 | compare --page x.html -- true | --page is for tables
2 | compare --programs nope | nope
2 | compare --programs jq --rival system | put --rival in front of jq
2 | config --lib /no/such.so | not found: /no/such.so (check the path)
2 | demo --lib /no/such.so | not found: /no/such.so (check the path)
2 | hotpath --pass PATH | --pass PATH is for a command of yours
2 | hotpath --bench nothing | unknown benchmark: nothing
2 | hotpath --bench larson | larson names 4 benchmarks
2 | hotpath --bench startup | no operations in its own process
2 | hotpath --bench idle_rss | no operations in its own process
2 | hotpath --bench 'random_mixed 64-16' | smallest size is above the largest
2 | hotpath --bench burst -- true | choose one
2 | hotpath --amounts 5,3 | 0 < SMALL < LARGE
2 | hotpath --amounts many | such as 1000,5000
2 | hotpath -- true {n} | needs --amounts
2 | hotpath --amounts 1,2 -- true | --amounts needs {n}
127 | hotpath -- no-such-program | command not found
2 | hotpath --lib no-such-library | unknown library
2 | matrix fat | lean
2 | record | which program? hakmem record -- COMMAND
2 | record --raw /no/such | the recording not found: /no/such
2 | record --raw /bin/sh | is no recording of this version
127 | record -- no-such-program | command not found
3 | record -- true | nothing was recorded: hakmem 0.0-stub served malloc in
2 | replay /no/such.hktrace | cannot read /no/such.hktrace: No such file
2 | advise /no/such.hktrace | cannot read /no/such.hktrace: No such file
2 | rerun | rerun what? an id of `hakmem ledger list`, or --all-claims
2 | rerun abc --all-claims | rerun what?
2 | rerun abc | no record abc in
2 | run --lib /no/such.so -- true | not found: /no/such.so (check the path)
127 | run -- no-such-program | command not found: no-such-program
2 | soak --lib /no/such.so | not found: /no/such.so (check the path)
2 | top 4194304 | process 4194304 gives no statistics
"""


@pytest.mark.parametrize("row", MISTAKES.strip("\n").split("\n"))
def test_a_mistake_is_one_clear_line(own: Stand, row: str) -> None:
    status, command, message = row.split(" | ", 2)
    done = own.call(*shlex.split(command))
    refused(done, message, status=int(status))
    assert done.stdout == ""
    assert not own.evidence.exists()
