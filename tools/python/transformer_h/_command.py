"""The command transformer-model. convert/published.py has its manual."""

import sys

from .extras import missing_package


def main() -> int:
    try:
        from .convert.published import main as run
    except ModuleNotFoundError as error:
        print(f"transformer-model: {missing_package('this command', error.name or 'more packages', 'download')}", file=sys.stderr)
        return 1
    return int(run())
