"""Words of transcripts, and how many differ."""

import re

NUMBERS = {"1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight",
           "9": "nine", "10": "ten", "mr": "mister"}


def words_of(text):
    """Returns the words of a text, without marks, and numbers up to ten as words."""
    return [NUMBERS.get(word, word) for word in re.sub(r"[^\w\s']", "", text.lower().replace("-", " ")).split()]


def align(a, b):
    """Returns the errors of a beside b, and the pairs of places whose words are equal."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        rows.append([i])
        for j, y in enumerate(b, 1):
            rows[i].append(min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (x != y)))
    i, j, pairs = len(a), len(b), []
    while i and j:
        if rows[i][j] == rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]):
            i, j = i - 1, j - 1
            if a[i] == b[j]:
                pairs.append((i, j))
        elif rows[i][j] == rows[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return rows[-1][-1], pairs
