"""The command transformer-model. convert/published.py has its manual."""

import sys


def main() -> int:
    try:
        from .convert.published import main as run
    except ImportError as error:
        print(f"transformer-model: {error}; pip install 'transformer-h[download]' installs what it needs", file=sys.stderr)
        return 1
    return int(run())
