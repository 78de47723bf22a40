from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interpose.startup.discovery import Discovery, discover

Install = Callable[..., Path]


def found(*folders: Path, thorough: bool = False) -> Discovery:
    return discover([str(folder) for folder in folders], thorough=thorough)


def codes(discovery: Discovery) -> list[str]:
    return [note.code for note in discovery.notes]


def test_an_entry_point_is_a_plugin_with_its_distribution_and_its_range(
    install: Install, site: Path
) -> None:
    install(
        "Acme_Guard",
        "1.2",
        plugins={"guard": "acme_guard:plugin"},
        offers={"capability.acme-guard/budget": "acme_guard:plugin"},
        requires=["interpose>=0.1,<1", "httpx", 'interpose>=9; extra == "next"'],
    )
    (guard,) = found(site).plugins
    assert (guard.id, guard.value, guard.offers) == (
        "guard",
        "acme_guard:plugin",
        ("acme-guard/budget",),
    )
    distribution = guard.distribution
    assert (distribution.name, distribution.canonical) == ("Acme_Guard", "acme-guard")
    assert (distribution.version, distribution.interpose_range) == ("1.2", "<1,>=0.1")
    assert distribution.location == str(site)


def test_a_distribution_that_does_not_require_interpose_declares_no_range(
    install: Install, site: Path
) -> None:
    install("acme-guard", plugins={"guard": "acme_guard"}, requires=["httpx"])
    assert found(site).plugins[0].distribution.interpose_range is None


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ("", "no readable METADATA"),
        ("Metadata-Version: 2.4\nVersion: 1.0\n", "no Name in its METADATA"),
        ("Metadata-Version: 2.4\nName: broken\n", "no Version in its METADATA"),
    ],
)
def test_a_damaged_distribution_is_skipped_and_named(
    install: Install, site: Path, metadata: str, says: str
) -> None:
    place = install("broken", plugins={"lost": "lost"}, metadata=metadata)
    install("healthy", plugins={"healthy": "healthy"})
    discovery = found(site)
    assert discovery.ids == ("healthy",)
    (note,) = discovery.notes
    assert note.code == "damaged-distribution"
    assert note.message.startswith("broken-1.0.dist-info has ")
    assert note.where == (str(place),)
    assert discovery.unusable["lost"] == note
    assert says in note.message


def test_entry_points_that_cannot_be_read_disturb_nothing(install: Install, site: Path) -> None:
    place = install("broken", entry_points="")
    (place / "entry_points.txt").write_bytes(b"[interpose]\nlost = \xff\xfe\n")
    install("healthy", plugins={"healthy": "healthy"})
    discovery = found(site)
    assert discovery.ids == ("healthy",)
    (note,) = discovery.notes
    assert note.message.startswith("The entry points of broken-1.0.dist-info cannot be read: ")
    assert note.where == (str(place / "entry_points.txt"),)


def test_foreign_damage_is_looked_for_only_when_asked(install: Install, site: Path) -> None:
    install("foreign", metadata="Metadata-Version: 2.4\nVersion: 1.0\n")
    assert found(site).notes == ()
    assert codes(found(site, thorough=True)) == ["damaged-distribution"]


def test_a_requirement_that_cannot_be_read_is_a_note_and_the_plugin_stays(
    install: Install, site: Path
) -> None:
    install("acme-guard", plugins={"guard": "acme_guard"}, requires=["interpose=>1", "interpose<2"])
    discovery = found(site)
    assert discovery.plugins[0].distribution.interpose_range == "<2"
    assert "'interpose=>1', which cannot be read" in discovery.notes[0].message


def test_a_finder_that_raises_ends_the_search_and_nothing_else(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def find_spec(self, *given: Any) -> None:
            return None

        def find_distributions(self, context: Any) -> Any:
            raise RuntimeError("no index today")

    install("acme-guard", plugins={"guard": "acme_guard"})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Broken()])
    discovery = discover()
    assert "guard" in discovery.ids
    assert (
        discovery.notes[-1].message
        == "The search for installed distributions stopped early: RuntimeError: no index today."
    )


def test_a_distribution_found_twice_counts_once(
    install: Install, site: Path, tmp_path: Path
) -> None:
    install("acme-guard", plugins={"guard": "acme_guard"})
    source = tmp_path / "source"
    install("acme-guard", plugins={"guard": "acme_guard"}, folder=source)
    discovery = found(site, source)
    assert [str(plugin) for plugin in discovery.plugins] == ['plugin "guard" (acme-guard 1.0)']
    (note,) = discovery.notes
    assert (note.code, note.severity) == ("duplicate-distribution", "note")
    assert note.where == (str(site), str(source))


def test_a_linked_folder_is_no_second_distribution(
    install: Install, site: Path, tmp_path: Path
) -> None:
    install("acme-guard", plugins={"guard": "acme_guard"})
    link = tmp_path / "site64"
    link.symlink_to(site)
    discovery = found(site, link, site)
    assert len(discovery.plugins) == 1
    assert discovery.notes == ()


def test_an_entry_point_listed_twice_counts_once(install: Install, site: Path) -> None:
    twice = "[interpose]\nguard = acme_guard\nguard = acme_guard\n"
    install("acme-guard", entry_points=twice)
    discovery = found(site)
    assert discovery.ids == ("guard",)
    assert discovery.notes == ()


def test_of_several_versions_in_one_folder_the_newest_counts(install: Install, site: Path) -> None:
    for minor in range(8, 13):
        install("acme-guard", f"0.{minor}", plugins={"guard": "acme_guard"})
    discovery = found(site)
    assert [plugin.distribution.version for plugin in discovery.plugins] == ["0.12"]
    assert set(codes(discovery)) == {"stale-distribution"}
    assert min(note.message for note in discovery.notes) == (
        "acme-guard 0.12 is installed more than once; "
        "the metadata of acme-guard 0.10 is a leftover."
    )


def test_of_two_folders_the_first_on_the_path_counts(
    install: Install, site: Path, tmp_path: Path
) -> None:
    later = tmp_path / "later"
    install("acme-guard", "1.0", plugins={"guard": "acme_guard"})
    install("acme.guard", "2.0", plugins={"guard": "acme_guard"}, folder=later)
    assert [p.distribution.version for p in found(site, later).plugins] == ["1.0"]
    assert [p.distribution.version for p in found(later, site).plugins] == ["2.0"]


def test_a_damaged_leftover_does_not_hide_the_installed_distribution(
    install: Install, site: Path
) -> None:
    install("acme-guard", "0.9", plugins={"guard": "acme_guard"}, metadata="")
    install("acme-guard", "1.0", plugins={"guard": "acme_guard"})
    discovery = found(site)
    assert [plugin.distribution.version for plugin in discovery.plugins] == ["1.0"]
    assert codes(discovery) == ["damaged-distribution"]
    assert discovery.unusable == {}


def test_two_distributions_with_one_id_are_both_kept_and_flagged(
    install: Install, site: Path
) -> None:
    install("acme-guard", plugins={"guard": "acme_guard"})
    install("zeta-guard", plugins={"guard": "zeta_guard"})
    discovery = found(site)
    assert [plugin.value for plugin in discovery.named("guard")] == ["acme_guard", "zeta_guard"]
    assert discovery.ambiguous == ("guard",)
    (note,) = discovery.notes
    assert note.message == 'The id "guard" belongs to acme-guard 1.0 and to zeta-guard 1.0.'
    assert 'use = "guard@acme-guard" or use = "guard@zeta-guard"' in note.hint


@pytest.mark.parametrize("name", ["My_Plugin", "a.b", "a--b", "-a", "9lives", "guard-"])
def test_a_name_outside_the_alphabet_is_no_plugin(install: Install, site: Path, name: str) -> None:
    install("acme-guard", plugins={name: "acme_guard"})
    discovery = found(site)
    assert discovery.plugins == ()
    assert discovery.unusable[name].message == (
        f'acme-guard 1.0 declares the plugin "{name}", '
        "which is not an id (lower case, digits and single hyphens)."
    )


def test_one_id_for_two_values_is_no_plugin(install: Install, site: Path) -> None:
    install("acme-guard", entry_points="[interpose]\nguard = one\nguard = two\n")
    discovery = found(site)
    assert discovery.plugins == ()
    assert "which names both one and two" in discovery.unusable["guard"].message


def test_an_offer_of_no_plugin_is_a_note(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard"},
        offers={"capability.acme-guard/budget": "other"},
    )
    discovery = found(site)
    assert discovery.plugins[0].offers == ()
    assert codes(discovery) == ["stray-offer"]


def test_extras_of_an_entry_point_are_no_part_of_its_value(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"guard": "acme_guard : plugin [fast]"})
    assert found(site).plugins[0].value == "acme_guard:plugin"


def test_discovery_imports_no_plugin_and_nothing_heavy(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard"},
        requires=["interpose>=0.1"],
        modules={"acme_guard": "raise SystemExit('imported')"},
    )
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "from interpose.startup.discovery import discover\n"
        "from interpose.startup.listing import listing\n"
        "from interpose.startup.uses import Wanted, needed\n"
        "found = discover(thorough=True)\n"
        "entries, problems = needed(found, [Wanted('guard', 'middleware')])\n"
        "assert [e.id for e in entries] == ['guard'] and not problems, problems\n"
        "assert any(line.active for line in listing(found, entries))\n"
        "heavy = {'pydantic', 'ag_ui', 'asyncio', 'loguru', 'rich', 'acme_guard'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
