"""Fuzz for as long as you like, or replay an input.

python -m tests.hardening.fuzz                                       a minute, all targets
python -m tests.hardening.fuzz --target json --seconds 600           ten minutes, one target
python -m tests.hardening.fuzz --target json --seconds 60 --keep     keep an input for each new outcome
python -m tests.hardening.fuzz --target json --replay FILE           check one input
"""

import argparse
import random
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


def main() -> None:
    """Do what the command line says."""
    sys.path.insert(0, str(TESTS))
    from hardening.fuzz.fuzzing import fuzz, replay
    from hardening.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=TARGETS, help="all when none is named")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, help="drawn when none is given")
    parser.add_argument("--keep", action="store_true", help="add inputs with new outcomes to the corpus")
    parser.add_argument("--replay", type=Path, nargs="+", help="files with one input each, for --target")
    arguments = parser.parse_args()
    targets = [TARGETS[arguments.target]] if arguments.target else list(TARGETS.values())
    if arguments.replay:
        if not arguments.target:
            parser.error("--replay needs a --target")
        print(f"{replay(targets[0], *arguments.replay)} inputs, no finding")
        return
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().getrandbits(32)
    for target in targets:
        print(f"{target.name}: seed {seed} ...", flush=True)
        print(f"  {fuzz(target, arguments.seconds / len(targets), seed, keep=arguments.keep)}", flush=True)


if __name__ == "__main__":
    main()
