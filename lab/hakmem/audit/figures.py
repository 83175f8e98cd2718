"""Finds the figures of performance in a text: a number, or words for one, with what it is said of.

A form of speech is one regular expression, put together from named pieces. Overlapping matches are
one figure, so that it is shown whole. Pure.
"""

import html
import re
from collections.abc import Iterator, Sequence

# ---- numbers ----

_GROUPED = r"\d{1,3}(?:[,\u202f\u2009\xa0 ]\d{3})+(?!\d)"
_EXPONENT = r"(?:[eE][+−-]?\d+|\s?[×·*]\s?10(?:\^[+−-]?\d+|[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))"
_SIGN = r"(?:(?<![\w.])[+−-])"
NUMBER = rf"{_SIGN}?(?<![\d.])(?:{_GROUPED}|\d+)(?:\.\d+)?{_EXPONENT}?"
INTERVAL = rf"\[(?P<low>{NUMBER})\s*(?:–|…|to|,)\s*(?P<high>{NUMBER})\s*%?\]"
# One number, or a range of two.
AMOUNT = rf"{NUMBER}(?:(?:\s?[–…±-]\s?|\s(?:to|or|and)\s){NUMBER})?"
DECIMAL = rf"(?<![\d.])\d*\.\d+(?:{_EXPONENT})?"
# Numbers as words; "one" and "several" are none.
WORD = r"""(?i:(?:one|two|three)\sand\sa\shalf|two|three|four|five|six|seven|eight|nine|ten|eleven
    |twelve|fifteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety
    |(?:an?|one)\s(?:hundred|thousand|dozen))"""
ROUGHLY = r"(?i:a\sfew|(?:tens|dozens|hundreds|thousands)\sof)"
PART = r"""(?i:\b(?:half|(?:an?|one|two|three|four|\d+)[\s-]
    (?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|hundredth)s?)\b|[½⅓⅔¼¾⅕⅛])"""

# ---- what they are said of ----

# Comparisons. SPEEDIER are of nothing but speed and cost.
SPEEDIER = r"(?i:(?:faster|slower|quicker|leaner|cheaper|costlier)\b)"
THAN = rf"""(?:{SPEEDIER}|(?i:(?:lighter|heavier|smaller|larger|bigger|shorter|longer|lower|higher
    |better|worse|less|more|fewer)\b))"""
# "as fast", "as much memory"; but not "as many entries".
OF_SPEED = r"(?i:fast|slow|quick(?:ly)?|slowly|lean|cheap|expensive|costly|efficient)\b"
GAIN = r"(?i:speed-?ups?|improvements?|gains?|reductions?|increases?|wins?)\b"
# What is measured, where a part or a multiple of it is stated: "half the memory".
QUANTITY = r"""(?i:\b(?:throughput|latency|latencies|bandwidth|speed|performance|costs?|IPC|RSS
    |memory|RAM|footprint|peak|resident\sset|overhead|fragmentation
    |(?:(?:run|CPU|user|wall)[\s-]?)?times?|runtime|cycles|instructions
    |(?:(?:page|cache|TLB)[\s-])?(?:faults|misses)|system\scalls|syscalls|operations|M?ops)\b)"""
# What is measured, where the number follows the name: "IPC is 2.12", "p99 of 120", "ns/op: 35".
NAMED = r"""\b(?:(?i:throughput|latency|bandwidth|IPC|CPI|RSS|maxrss|VmHWM|footprint|peaks?
    |speed-?ups?|overhead|run-?time|(?:CPU|user|wall|system|run)[\s-]time|cycles|instructions
    |(?:(?:page|cache|TLB)[\s-])?(?:faults|misses)|system\scalls|syscalls|context\sswitches
    |QPS|IOPS)|\w+(?:/|\sper\s)(?:op|s|sec|second|call|cycle)|Mops|[pP]\d{2,3}(?:\.\d+)?)\b
    (?:\s?\([^()\n]{1,12}\)|\sin\s[\w/]+|(?:/|\sper\s)\w+)?"""
# The same where only a number with decimals or a scale makes a figure: "a ratio of 0.92".
VAGUE = r"""\b(?i:ratio|time|elapsed|median|mean|average|score|fragmentation|speed|performance
    |memory|heap|working\sset)\b"""
# Whose it is, where a verb follows: "page faults of the whole process were 178".
OWNER = r"(?:\s(?:of|in)\s(?:the|an?|each)\s(?:\w+\s){0,2}\w+(?=\s(?:is|was|are|were)\b))?"
# What may stand between the name and the number.
LINK = r"""(?:\s?[:=≈~<>≤≥(]|\s(?i:of|is|was|are|were|at|to|by|from|about|around|only|just|now|then
    |nearly|roughly|under|below|over|above|down|up|stays?|stayed|hits?|reach(?:es|ed)?
    |drops?|dropped|falls?|fell|sinks?|sank|shrinks?|shrank|grows?|grew|goes|went|rises?|rose
    |climbs?|climbed|improve[sd]?|(?:in|de)creased?)\b)*\s?"""
# What follows such a number: no unit, and no noun that it counts ("throughput at 8192 slots").
ALONE = r"""(?![\w%-])(?!\.\d)(?!\s(?!(?:with|without|and|or|on|at|in|for|than|when|where|but|to|by
    |against|vs|versus|instead|from|as|while|here|now|under|after|before)\b)[A-Za-z])"""
RIVAL = r"""(?i:\b(?:\w+malloc\d?|glibc|musl|gperftools
    |the\s(?:C\slibrary|system|oracle|(?:best|leanest)\srival))\b)"""

# ---- units ----

TIME = r"""(?:(?:[mµμun]?s(?:ecs?)?|secs?|(?:micro|milli|nano)?seconds?|m\s?\d+(?:\.\d+)?s)\b)"""
RATE = r"""(?:
      (?:(?i:thousand|million|billion)|[kKMGµμumn])?\s?
      (?:ops?|operations|allocs|allocations|mallocs|frees|requests|calls|transactions|queries)\s?
      (?:/|(?:per|an?|each|every)\s)\s?\w+
    | (?:thousand|million|billion|[kMG])\s?(?:/|(?:per|an?|each|every)\s)(?:s|sec|second|minute)\b
    | (?:\w{1,12}\s){0,2}\w{0,12}\s?(?:/|per\s)\s?
      (?:ops?|operation|exec|calls?|mallocs?|frees?|allocs?|allocation|request|iteration|s|sec
      |seconds?|ms|min|minute)\b
    | [kKMGT]\s?[Oo]ps?\b | [kMG]?\s?(?:QPS|qps|RPS|rps|TPS|tps|IOPS)\b | [kMG]?Hz\b
    )"""
COUNT = r"""(?:(?:\w+[\s-])?(?:cycles|instructions|faults|misses|system\scalls|syscalls
    |context\sswitches)\b(?:\s?(?:/|per\s)\s?\w+)?|IPC\b)"""
PERCENT = r"(?:[%‰]|-?(?:percent|per\scent|pct)\b)"
MULTIPLE = rf"""(?:(?:×|(?<!\b0)[xX])(?!\s?[\w({{])
    | (?:times|[xX×])\s(?:{THAN}|(?:as|the)\b(?:\s{OF_SPEED}|\s{QUANTITY})?|{GAIN}))"""
UNIT = rf"(?:{RATE}|{TIME}|{COUNT}|{PERCENT}|{MULTIPLE})"
BYTES = r"(?:[KMGT]i?B|kB|(?:[Kk]ilo|[Mm]ega|[Gg]iga|[KkMmGg]ebi)?bytes|[Mm]egs?|[Gg]igs?|B)\b"
# A number with a scale and nothing else: "25.1M".
SCALE = r"[kKMGT]\b"
SIZE = rf"{AMOUNT}\s?{BYTES}"
# Where a word says that memory is meant, "33M" is a size too.
MEMORY = rf"{AMOUNT}\s?(?:{BYTES}|{SCALE})"


def _form(text: str) -> re.Pattern[str]:
    return re.compile(text, re.VERBOSE)


_FORMS = (
    # 7 ns, 25 Mop/s, 12 % less, 3 times faster, 1.8 times the speed, 0.8 ns each, 3 points faster
    _form(rf"{AMOUNT}(?:\(\d+\))?\s?{UNIT}(?:\s(?:{THAN}|each\b|apiece\b))?"),
    _form(rf"{AMOUNT}\s(?:\w+\s)?{SPEEDIER}"),
    # 1.5 hours, 1.25e-7
    _form(r"(?<![\d.])\d+\.\d+(?:\s?(?:min|minutes|h|hours)\b|[eE][+−-]?\d+)"),
    # fifty percent, ten nanoseconds, hundreds of cycles, twelve million ops per second
    _form(
        rf"""\b{WORD}\s(?:{PERCENT}|(?:nano|micro)seconds?\b)(?:\s{THAN})?
        | \b{ROUGHLY}\s(?:{COUNT}|(?:nano|micro)seconds?\b)
        | \b(?:(?i:an?)|{WORD}|{ROUGHLY})\s(?:thousand|million|billion)s?\s(?:of\s)?{RATE}"""
    ),
    # 25.1M, 33M RSS
    _form(rf"\d+\.\d+{SCALE} | \b\d+{SCALE}\s(?:of\s)?{QUANTITY}"),
    # IPC is 2.12, cycles≈109.8M, RSS dropped to 33M, latency: 35ns, faults of the process were 178
    _form(rf"{NAMED}{OWNER}{LINK}{AMOUNT}(?:\s?{UNIT}|\s?{BYTES}|\s?{SCALE}|{ALONE})"),
    # a ratio of 0.92, a heap of 33M
    _form(rf"{VAGUE}{LINK}(?:{DECIMAL}{ALONE}|{NUMBER}\s?{SCALE})"),
    # three times faster, twice as fast, half as much memory, half again as fast
    _form(
        rf"""\b(?:{WORD}\s(?:times|x)|(?i:twice|thrice|half(?:\sagain)?))\s(?:{THAN}|as\s(?:{OF_SPEED}
        |(?:much|many|little|few)\s(?:[\w']+\s)?{QUANTITY}))
        | \b(?:(?i:half)\sas\s(?:{OF_SPEED}|much)|as\s{OF_SPEED})\sagain\b"""
    ),
    # three times the memory, half the time, a third of glibc's peak, a fifth faster, a third less
    _form(
        rf"""(?:(?:\b{WORD}|{NUMBER})\s(?:times|×)|\b(?i:twice|thrice|double)|{PART}(?:\sof)?)\s
        (?:(?:the|its|their|our|[\w']+'s)\s)?(?:[\w']+'s\s|peak\s|resident\s)?{QUANTITY}
        | {PART}\s{THAN}(?:\s{QUANTITY})?"""
    ),
    # about 12 (of nothing that is named)
    _form(rf"\b(?i:about|around|roughly|nearly|almost|approximately)\s{AMOUNT}{ALONE}"),
    # 0.92 of the system's time, 0.92 of glibc
    _form(rf"{DECIMAL}\sof\s(?:(?:[\w']+\s){{0,3}}?{QUANTITY}|{RIVAL})"),
    # cuts the peak in half, memory fell by a third
    _form(
        rf"""\b(?i:cut|cuts|cutting|reduc\w+|lower\w*|shr[iau]nk\w*)\s(?:[\w']+\s){{0,2}}?
        {QUANTITY}\s(?:[\w']+\s)?(?:by|in|to)\s{PART}
        | {QUANTITY}\s(?:\w+\s){{1,2}}?(?:by|in)\s{PART}"""
    ),
    # doubles the throughput, the peak has halved
    _form(
        rf"""\b(?i:doubl|halv|tripl|trebl|quadrupl)(?:es?|ed|ing)\s(?:[\w']+\s){{0,2}}?{QUANTITY}
        | {QUANTITY}\s(?:has\s|is\s|was\s)?(?i:doubl|halv|tripl|trebl|quadrupl)(?:es|ed)\b"""
    ),
    # by a factor of 3, 3.5-fold, tenfold, an order of magnitude faster
    _form(
        rf"""\b(?:(?i:by\s(?:a\s)?|a\s)factor(?:\sof)?|(?<!load\s)factor[\s-]of)[\s-]
        (?:\w+\s)?(?:{AMOUNT}|{WORD}\b)(?:\s{SPEEDIER})?"""
    ),
    _form(rf"(?:{AMOUNT}[\s-]?|\b{WORD}-?)fold\b(?:\s(?:{THAN}|{GAIN}))?"),
    _form(
        rf"""\b(?:(?:(?i:an?|one|several)|{WORD}|\d+)[\s-])?orders?[\s-]of[\s-]magnitude\s
        (?:{THAN}|{GAIN}) | \bby\s(?:\w+\s)?orders?\sof\smagnitude"""
    ),
    # saves 40 MB, uses 33 MiB of memory, uses only 33 MiB, 20 MB less, grew to 33 MiB
    _form(
        rf"""\b(?i:sav(?:es?|ed|ing)|wast\w+|consum\w+)\s(?:\w+\s){{0,2}}?{MEMORY}
        (?:\s(?:of\s)?{QUANTITY})?
        | \b(?i:us(?:e[sd]?|ing)|takes?|took|needs?|needed|holds?|held|costs?|occup\w+|requir\w+)\s
        (?:(?:\w+\s){{0,2}}?{MEMORY}\s(?:of\s)?(?:\w+\s)?{QUANTITY}
        |(?:only|just|merely)\s{MEMORY})
        | {MEMORY}\s{THAN}(?:\s{QUANTITY})?
        | \b(?i:grew|shrank|dropped|fell|rose|went|peaked)\s(?:\w+\s)?(?:to|at)\s{MEMORY}"""
    ),
    # 10.2M vs System 72.9M, 7.1 vs 12.4
    _form(
        rf"""{MEMORY}\s(?i:vs\.?|versus|against|compared\s(?:to|with))\s(?:[\w']+\s){{0,3}}?
        {NUMBER}(?:\s?(?:{BYTES}|{SCALE}))? | {DECIMAL}\s(?i:vs\.?|versus|against)\s{DECIMAL}"""
    ),
    # 27 665 → 2 627, 0.88 [0.85–0.90]
    _form(rf"{NUMBER}[^\d|\n]{{0,12}}(?:→|⇒|->|=>)\s?{NUMBER}"),
    _form(rf"{NUMBER}\s?{INTERVAL}"),
)
# A size is a figure where its paragraph is about memory use.
_SIZE = _form(SIZE)
_OF_MEMORY = re.compile(
    r"\b(?:RSS|resident|peaks?|footprint|memory (?:use|usage|consumption)|leaner|VmHWM|maxrss)\b",
    re.IGNORECASE,
)
# Behind a division sign each number with decimals is a ratio.
_DIVIDED = re.compile(r"÷(?:[^.]|\.(?=\d))*")

# What looks like a figure and is a limit: "at most 60 seconds", "5 % of them may", "0 to 64 MiB".
_LIMIT = _form(
    rf"""(?<!in\s)\b(?i:at\s(?:most|least)|every)\s\d+\sseconds\b(?!\s(?:{THAN}|per\b|for\b))
    | \b\d+\sseconds\sat\s(?:most|least)\b
    | \d+\s?{PERCENT}\sof\s(?:them|these|those|all|the\s(?!{QUANTITY})\w+)\s
      (?:may|must|can|should|need)\b
    | \b0\sto\s\d+\s{BYTES}"""
)

# The line below a table's titles, with or without a bar at its ends.
_RULE = re.compile(r" ?\|?(?: ?:?-+:? ?\|)+(?: ?:?-+:?)? ?")
# In a table the unit may stand in the column's title, or in a cell of the row.
_TITLE_UNIT = re.compile(
    r"(?<!')\b[kMGmµμn]?(?:ops?|s|sec)\b|%|÷|×|cycles|instructions|faults|misses|CPU/|RSS"
    r"|\b[KMG]i?B\b|\bMops|(?i:\b(?:throughput|latency|IPC|speed-?up)\b)|\b[pP]\d\d\b"
)

# Emphasis and tags within a line.
_MARKUP = (
    r"</?(?:b|br|code|em|i|span|strong|sub|sup)\b[^>\n]*>|`|\*+(?=\S)|(?<=\S)\*+"
    r"|(?<!\w)_+(?=\S)|(?<=\S)_+(?!\w)"
)


def figures(block: str) -> Iterator[tuple[int, str]]:
    """Each figure of a paragraph, list or table: its line, counted from 0, and its words."""
    whole = _plain(block).split("\n")
    rule = next((n for n, line in enumerate(whole) if n and _RULE.fullmatch(line)), None)
    table = rule - 1 if rule else 0 if whole[0].startswith("|") else len(whole)
    for line, cell in _table_figures(whole[table:]):
        yield table + line, cell
    plain = "\n".join(whole[:table])
    for start, end in _spans(plain, bool(_OF_MEMORY.search(plain))):
        yield plain.count("\n", 0, start), " ".join(plain[start:end].split())
    for sentence in _DIVIDED.finditer(plain):
        for match in re.finditer(r"\d+\.\d+", sentence.group()):
            at = sentence.start() + match.start()
            yield plain.count("\n", 0, at), f"÷ … {match.group()}"


def _plain(block: str) -> str:
    """The text as it is read, line by line: no emphasis, no tags, no entities, single blanks."""
    text = re.sub(_MARKUP, "", html.unescape(block))
    return re.sub(r"[ \t]*\n[ \t>]*", "\n", re.sub(r"[ \t]+", " ", text)).lstrip(" ")


def _spans(text: str, sizes: bool) -> list[tuple[int, int]]:
    """Where the figures are, as offsets; overlapping matches are one."""
    limits = [match.span() for match in _LIMIT.finditer(text)]
    forms = (*_FORMS, _SIZE) if sizes else _FORMS
    found: list[tuple[int, int]] = []
    for start, end in sorted(match.span() for form in forms for match in form.finditer(text)):
        if any(low <= start and end <= high for low, high in limits):
            continue
        if found and start < found[-1][1]:
            start, end = found[-1][0], max(end, found.pop()[1])
        found.append((start, end))
    return found


def _table_figures(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Cells with a figure, and those with a number whose unit their column or row states."""
    titles: list[str] = []
    for line, row in enumerate(lines):
        cells = row.strip().strip("|").split("|")
        titles = titles or cells
        sizes = any(_OF_MEMORY.search(text) for text in (*titles, *cells))
        by_row = any(_TITLE_UNIT.search(c) and not re.search(r"\d", c) for c in cells)
        for title, cell in zip(titles, cells, strict=False):
            if cells is titles:
                continue
            alone = re.search(NUMBER, cell) and not re.search(r"[A-Za-z]{3}", cell)
            if _spans(cell, sizes) or (alone and (by_row or _TITLE_UNIT.search(title))):
                yield line, cell.strip()
