"""Dictionaries, strings, lists and objects that come and go; prints a digest of what came out."""

import hashlib
import json
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path


class Node:
    def __init__(self, key: str, left: "Node | None", right: "Node | None") -> None:
        self.key, self.left, self.right = key, left, right


def tree(keys: list[str]) -> Node | None:
    if not keys:
        return None
    middle = len(keys) // 2
    return Node(keys[middle], tree(keys[:middle]), tree(keys[middle + 1 :]))


def depth_sum(node: Node | None, depth: int = 1) -> int:
    if node is None:
        return 0
    return depth + depth_sum(node.left, depth + 1) + depth_sum(node.right, depth + 1)


def main() -> None:
    out: list[object] = []
    lines = [line.split() for line in Path(sys.argv[1]).read_text(encoding="ascii").splitlines()]
    counts = Counter(word for line in lines for word in line)
    out.append(counts.most_common(20))
    pairs = defaultdict(list)
    for number, line in enumerate(lines[:12000]):
        for first, second in pairwise(line):
            pairs[first[:3] + second[:2]].append(number)
    out.append(sum(len(v) * len(k) for k, v in pairs.items()))
    records = [{"n": n, "words": line, "text": " ".join(line)} for n, line in enumerate(lines)]
    again = json.loads(json.dumps(records[:9000]))
    out.append(again == records[:9000])
    out.append(depth_sum(tree(sorted(counts))))
    built = ""
    for line in lines[:3000]:
        built += line[0].title() + str(len(built))
    out.append(len(built))
    print(hashlib.sha256(repr(out).encode()).hexdigest())


main()
