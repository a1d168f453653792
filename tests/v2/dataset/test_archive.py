import gzip
import zipfile

import pytest

from pd_v2.dataset import archive

from . import originals

MEMBERS = {"a/": b"", "a/one": b"1", "a/two": b"22"}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_files_of_a_tar(tmp_path, mode):
    path = originals.tar(tmp_path / "tiny.tar", MEMBERS, mode)
    assert list(archive.tar_files(path, lambda name: True)) == [("a/one", b"1"), ("a/two", b"22")]
    assert list(archive.tar_files(path, lambda name: "two" in name)) == [("a/two", b"22")]
    assert archive.tar_file(path, "./a/one") == b"1"


def test_a_leading_dot_makes_no_difference(tmp_path):
    path = originals.tar(tmp_path / "tiny.tar", {"./a": b"1"})
    assert archive.tar_file(path, "a") == archive.tar_file(path, "./a") == b"1"


def test_a_file_of_a_zip(tmp_path):
    path = originals.zipped(tmp_path / "tiny.zip", MEMBERS)
    assert archive.zip_file(path, "a/two") == b"22"


@pytest.mark.parametrize("read", [archive.tar_file, archive.zip_file])
def test_a_name_that_is_not_there(tmp_path, read):
    write = originals.tar if read is archive.tar_file else originals.zipped
    path = write(tmp_path / "tiny", MEMBERS)
    with pytest.raises(ValueError, match=r"tiny is damaged: no file in it is named 'a/three'\n"):
        read(path, "a/three")


@pytest.mark.parametrize("cut", [lambda raw: raw[:-4], lambda raw: raw[:50], lambda raw: b""])
@pytest.mark.parametrize("read", [archive.tar_file, archive.zip_file])
def test_a_damaged_archive(tmp_path, read, cut):
    write = originals.tar if read is archive.tar_file else originals.zipped
    path = write(tmp_path / "tiny", MEMBERS)
    path.write_bytes(cut(path.read_bytes()))
    with pytest.raises(ValueError, match=r"(?s)tiny is damaged: .+hint: delete the archive"):
        read(path, "a/one")


def test_a_damaged_gzip_member():
    assert archive.gunzipped("inner", gzip.compress(b"1")) == b"1"
    with pytest.raises(ValueError, match=r"inner is damaged: "):
        archive.gunzipped("inner", gzip.compress(b"1")[:-3])


def test_unpack_makes_a_folder(tmp_path):
    path = originals.zipped(tmp_path / "tiny.zip", {**MEMBERS, "b/a/three": b"3", "b/x": b"4"})
    with zipfile.ZipFile(path) as tiny:
        archive.unpack(tiny, "a", str(tmp_path / "in" / "out"))
        archive.unpack(tiny, "b", str(tmp_path / "in" / "other"))
        archive.unpack(tiny, "a", str(tmp_path / "in" / "out"))  # as if another had been faster
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {"tiny.zip", "in/out/one", "in/out/two", "in/other/a/three", "in/other/x"}
    assert (tmp_path / "in" / "out" / "two").read_bytes() == b"22"


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "\\x", "C:x", "..\\x", "a/.."])
def test_a_member_that_leaves_the_folder(tmp_path, name):
    path = originals.zipped(tmp_path / "tiny.zip", {"a/good": b"1", name: b"2"})
    with zipfile.ZipFile(path) as tiny, pytest.raises(ValueError) as caught:
        archive.unpack(tiny, "a", str(tmp_path / "in" / "out"))
    assert f"its member {name!r} would be written outside of the cache" in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["tiny.zip"]


def test_an_archive_without_the_folder(tmp_path):
    path = originals.zipped(tmp_path / "tiny.zip", MEMBERS)
    with zipfile.ZipFile(path) as tiny, pytest.raises(ValueError, match="in a folder 'b'"):
        archive.unpack(tiny, "b", str(tmp_path / "out"))


def test_a_damaged_member_leaves_no_folder(tmp_path):
    path = originals.zipped(tmp_path / "tiny.zip", {"a/good": b"1", "a/bad": b"some content"})
    raw = path.read_bytes()
    at = raw.index(b"bad") + 3
    path.write_bytes(raw[:at] + bytes([raw[at] ^ 255]) + raw[at + 1 :])
    with zipfile.ZipFile(path) as tiny, pytest.raises(ValueError, match=r"zip: a/bad is damaged"):
        archive.unpack(tiny, "a", str(tmp_path / "out"))
    assert [p.name for p in tmp_path.iterdir()] == ["tiny.zip"]


def test_files_of_an_open_tar_in_any_order(tmp_path):
    path = originals.tar(tmp_path / "tiny.tar", MEMBERS, "w")
    with archive.OpenTar(path) as tar:
        assert [tar.read(name) for name in ("a/two", "a/one", "a/two")] == [b"22", b"1", b"22"]
        with pytest.raises(ValueError, match="no file in it is named 'a/three'"):
            tar.read("a/three")


@pytest.mark.parametrize("size", [0, 700, 1100])
def test_a_damaged_tar_that_is_opened(tmp_path, size):
    path = originals.tar(tmp_path / "tiny.tar", MEMBERS, "w")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"tiny.tar is damaged"), archive.OpenTar(path) as tar:
        tar.read("a/one")
