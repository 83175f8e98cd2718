"""The pieces that forms of speech about performance are put together from, as verbose patterns."""

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

# Words that make a number a comparison; the first of them are of nothing but speed and cost.
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
# Behind such a number: no unit, and no noun that it would be the number of ("throughput at 8192
# slots").
ALONE = r"""(?![\w%-])(?!\.\d)(?!\s(?!(?:with|without|and|or|on|at|in|for|than|when|where|but|to|by
    |against|vs|versus|instead|from|as|while|here|now|under|after|before)\b)[A-Za-z])"""
RIVAL = r"(?i:\b(?:\w+malloc|glibc|musl|the\sC\slibrary|the\ssystem)\b)"

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
# Where a name says that memory is meant, "33M" is a size too.
MEMORY = rf"{AMOUNT}\s?(?:{BYTES}|{SCALE})"
