"""What is read of a distribution's metadata, against the libraries that read it in full."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import importlib_metadata
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement

from interpose.startup.discovery import GROUP, OFFERS_GROUP, discover
from interpose.startup.metadata import entry_points, headers, name_in, needs, plain_range

Install = Callable[..., Path]
in_one_folder = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
words = st.text("ab-. :=[]#;<>,1\t", max_size=8)
endings = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\n\n"])


def text_of(lines: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(lines, endings), max_size=8).map(
        lambda found: "".join(line + ending for line, ending in found)
    )


def distribution_at(site: Path, file: str, text: str) -> importlib_metadata.Distribution:
    """Return a distribution whose metadata folder holds such a file."""
    info = site / "thing-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / file).write_bytes(text.encode())
    return importlib_metadata.Distribution.at(info)


fields = st.builds(
    "{}{}{}".format,
    st.sampled_from(["Name", "name", "Version", "VERSION", "Requires-Dist", "Summary", "", " "]),
    st.sampled_from([":", ": ", ":\t", " :", ""]),
    words,
)


@in_one_folder
@given(text_of(fields))
def test_headers_are_what_the_library_reads(site: Path, text: str) -> None:
    raw = distribution_at(site, "METADATA", text)
    ours = headers(raw)
    if not text:
        assert not ours
        return
    theirs = raw.metadata
    for name in ("Name", "Version"):
        whole = theirs.get(name)
        if whole is None or "\n" not in whole:  # nobody goes on in the next line with a name
            assert ours.get(name.lower(), [None])[0] == whole
    if "\n" not in "".join(raw.requires or ()):
        assert list(needs(raw, ours)) == list(raw.requires or ())


entries = st.one_of(
    st.sampled_from(["[interpose]", "[interpose.offers]", "[console_scripts]", "# [interpose]"]),
    st.builds("{} = {}".format, words, words),
    words,
)


@in_one_folder
@given(text_of(entries))
def test_entry_points_are_what_the_library_reads(site: Path, text: str) -> None:
    raw = distribution_at(site, "entry_points.txt", text)
    groups = (GROUP, OFFERS_GROUP)
    theirs: list[tuple[str, str, str]] | None = None
    with suppress(TypeError, ValueError):
        theirs = [(each.group, each.name, each.value) for each in raw.entry_points]
    try:
        ours = list(entry_points(raw, groups, thorough=True))
    except (TypeError, ValueError):
        assert theirs is None
        return
    assert theirs is not None
    assert ours == [each for each in theirs if each[0] in groups]
    assert list(entry_points(raw, groups)) == ours


requirements = st.builds(
    "{}{}{}".format,
    st.sampled_from(
        ["interpose", "Interpose ", "inter-pose", "a_b", "interpose[remote]", "", "-x"]
    ),
    st.lists(
        st.builds(
            "{}{}{}".format,
            st.sampled_from([">=", "<", "==", "!=", "~=", "===", "=>", " > ", ""]),
            st.sampled_from(["1", "0.1", "1.*", " 2.0 ", "1a1", "1.", ""]),
            st.sampled_from(["", "", " "]),
        ),
        max_size=3,
    ).map(",".join),
    st.sampled_from(["", "", "", ' ; extra == "x"', " "]),
)


@settings(max_examples=300, deadline=None)
@given(requirements)
def test_a_plain_range_is_the_one_that_packaging_reads(text: str) -> None:
    found = plain_range(text)
    if found is not None:
        assert found == str(Requirement(text).specifier)
    with suppress(InvalidRequirement):
        assert name_in(text) == Requirement(text).name


def test_usual_plain_ranges_are_read_without_packaging() -> None:
    assert plain_range("interpose>=0.1,<1") == "<1,>=0.1"
    assert plain_range("interpose") == ""
    assert plain_range("interpose~=0.1") is None
    assert plain_range('interpose>=0.1; python_version < "4"') is None


def test_of_other_requirements_only_the_thorough_look_tells_that_they_cannot_be_read(
    install: Install, site: Path
) -> None:
    install("acme-guard", plugins={"guard": "acme_guard"}, requires=["httpx=>1", "interpose>=0.1"])
    assert discover([str(site)]).notes == ()
    (note,) = discover([str(site)], thorough=True).notes
    assert "'httpx=>1', which cannot be read" in note.message


def test_entry_points_of_others_are_looked_into_only_when_asked(
    install: Install, site: Path
) -> None:
    install("foreign", entry_points="[console_scripts]\nno value\n")
    assert discover([str(site)]).notes == ()
    (note,) = discover([str(site)], thorough=True).notes
    assert note.message.startswith("The entry points of foreign-1.0.dist-info cannot be read: ")
