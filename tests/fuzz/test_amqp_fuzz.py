"""The native codec of AMQP values under any octets, with feedback of coverage, under the sanitizers."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUNDS = 60_000
WAYS = 450  # through the codec and its checks; millions of rounds find some 510


def test_the_codec_keeps_inside_and_agrees_with_itself(tmp_path: Path) -> None:
    """Any octets: no step outside, skipped as read, written as read. The search gets around."""
    program = tmp_path / "amqp"
    command = ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    command += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fsanitize-coverage=trace-pc"]
    command += [f"-I{ROOT}", str(Path(__file__).with_name("amqp.c")), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for seed in range(2):
        done = subprocess.run(
            [program, str(seed), str(ROUNDS)], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > WAYS
