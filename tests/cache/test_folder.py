"""The folder of entries: whole, checked, bounded, silent where it cannot be used."""

import os
import threading
from pathlib import Path

import pytest

from tracegrad import cache
from tracegrad.cache import files
from tracegrad.cache.files import Folder, default_folder

KEY = "a" * 40


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "entries")


def test_what_is_written_is_read(folder):
    assert folder.read(KEY) is None
    assert folder.write(KEY, b"data")
    assert folder.read(KEY) == b"data"
    assert folder.write(KEY, b"")
    assert folder.read(KEY) == b""
    assert os.listdir(folder.path) == [KEY + ".tgc"]


@pytest.mark.parametrize("position", [0, 12, 20, 45, 60, -1])
def test_a_changed_byte_makes_the_entry_invalid(folder, position):
    folder.write(KEY, b"some data that is long enough")
    (file,) = Path(folder.path).iterdir()
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)
    assert folder.read(KEY) is None
    assert folder.write(KEY, b"new")
    assert folder.read(KEY) == b"new"


@pytest.mark.parametrize("content", [b"", b"tracegrad", b"\x00" * 200])
def test_other_files_are_no_entries(folder, content):
    folder.write(KEY, b"data")
    (file,) = Path(folder.path).iterdir()
    file.write_bytes(content)
    assert folder.read(KEY) is None


def test_an_entry_under_another_name_is_ignored(folder):
    folder.write(KEY, b"data")
    (file,) = Path(folder.path).iterdir()
    file.rename(file.with_name("b" * 40 + ".tgc"))
    assert folder.read("b" * 40) is None


def test_the_entry_unused_for_longest_goes_first(tmp_path):
    folder = Folder(tmp_path, limit=3500)
    for age, key in ((300, "a"), (200, "b"), (100, "c")):
        folder.write(key, bytes(1000))
        moment = os.stat(tmp_path / f"{key}.tgc").st_mtime - age
        os.utime(tmp_path / f"{key}.tgc", (moment, moment))
    assert folder.read("a") is not None  # used now
    folder.write("d", bytes(1000))
    assert {k for k in "abcd" if folder.read(k)} == {"a", "c", "d"}


def test_an_entry_larger_than_the_folder_is_not_kept(tmp_path):
    assert not Folder(tmp_path, limit=100).write(KEY, bytes(200))
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_writer_left_is_removed(folder):
    folder.write("b", b"data")
    left, fresh = Path(folder.path, "x.1-2.tmp"), Path(folder.path, "y.1-2.tmp")
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (1, 1))
    folder.write("c", b"data")
    assert not left.exists() and fresh.exists()


def test_a_folder_that_cannot_be_made_is_empty(tmp_path):
    (tmp_path / "file").write_text("in the way")
    folder = Folder(tmp_path / "file" / "entries")
    assert not folder.write(KEY, b"data")
    assert folder.read(KEY) is None


def test_readers_and_writers_at_once_see_whole_entries(folder):
    contents = [bytes([k]) * (20_000 + k) for k in range(4)]
    wrong, stop = [], threading.Event()

    def write(content):
        for _ in range(40):
            folder.write(KEY, content)

    def read():
        while not stop.is_set():
            found = folder.read(KEY)
            if found is not None and found not in contents:
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(c,)) for c in contents]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert not wrong
    assert folder.read(KEY) in contents
    assert len(os.listdir(folder.path)) == 1


# ---- which folder -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["0", "off", "False"])
def test_the_switch(monkeypatch, tmp_path, text):
    monkeypatch.setenv("TRACEGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRACEGRAD_CACHE", text)
    assert cache.folder() is None
    cache.write(KEY, b"data")
    assert cache.read(KEY) is None
    monkeypatch.delenv("TRACEGRAD_CACHE")
    assert cache.folder().path == str(tmp_path)
    cache.write(KEY, b"data")
    assert cache.read(KEY) == b"data"


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    files._user_folder.cache_clear()
    yield tmp_path
    files._user_folder.cache_clear()


def test_the_users_folder_is_the_one_of_platformdirs(home):
    import platformdirs

    assert default_folder().path == platformdirs.user_cache_dir("tracegrad", appauthor=False)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX permissions")
def test_a_folder_others_may_write_to_is_not_used(home):
    place = default_folder()
    assert place.write(KEY, b"data")
    assert os.stat(place.path).st_mode & 0o777 == 0o700
    os.chmod(place.path, 0o777)
    assert default_folder() is None


# ---- keys ---------------------------------------------------------------------------------------------------------


def test_keys_tell_parts_apart():
    keys = {cache.key(*parts) for parts in (("ab",), ("a", "b"), ("", "ab"), (b"ab", ""), ("a",))}
    assert len(keys) == 5
    assert cache.key("ab") == cache.key(b"ab")
