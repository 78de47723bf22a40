import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interpose_logging.logfile import LogFile, LogFileError


def test_lines_are_appended_and_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.log"
    path.write_text("before\n", encoding="ascii")
    with LogFile.opened(path, "logging") as file:
        file.write("one")
        assert path.read_text(encoding="ascii") == "before\none\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a pipe shows torn writes, a file hardly")
def test_lines_of_several_threads_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(path.read_text, encoding="ascii")
        with LogFile.opened(path, "logging") as file, ThreadPoolExecutor(8) as pool:
            list(pool.map(file.write, [str(n % 10) * 200_000 for n in range(40)]))
        lines = read.result().splitlines()
    assert len(lines) == 40
    assert all(line == line[0] * 200_000 for line in lines)


def test_a_file_that_cannot_be_opened_is_told_with_its_place_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "runs.log"
    with pytest.raises(LogFileError) as caught, LogFile.opened(path, "audit-log"):
        pass
    assert str(caught.value) == (
        f"error[log-file]: The log file {path} cannot be opened: No such file or directory.\n"
        "  at [middleware.audit-log] file\n"
        "  fix: Name a file that this user may append to, in a folder that exists."
    )
