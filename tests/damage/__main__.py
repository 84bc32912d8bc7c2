"""Damage data folders, one file at a time, and judge what comes of it.

python -m tests.damage                    1,000 cases, with a table at the end
python -m tests.damage --cases 50
python -m tests.damage --seed 17          one case once more, with everything that was wrong
python -m tests.damage --seed 17 --keep DAMAGED          the same, and the damaged folder stays there
"""

import argparse
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Run the cases; gives 1 when an answer was wrong."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import forking
    import running
    from damage.building import scratch_folder
    from damage.cases import Cases

    running.start_process = forking.start
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, help="run this case only")
    parser.add_argument("--keep", type=Path, help="where the damaged folder of --seed is copied to")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-damage-", dir=scratch_folder()) as scratch:
        cases = Cases(Path(scratch))
        for seed in range(arguments.cases) if arguments.seed is None else [arguments.seed]:
            case = cases.run(seed, arguments.keep if arguments.seed is not None else None)
            if arguments.seed is not None or case.outcome.is_violation:
                print(f"{seed}: {case.folder}, {case.damage}: {case.outcome.name}", flush=True)
            if arguments.seed is not None:
                print(*case.outcome.details, sep="\n")
        print(cases.table())
    return int(bool(cases.violations))


if __name__ == "__main__":
    sys.exit(main())
