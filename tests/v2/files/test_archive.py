import gzip
import struct
import tarfile
import zipfile
import zlib

import pytest

import pd_core as pd
from pd_v2.dataset import common, sentiment
from pd_v2.files import archive, unpacking

from ..dataset import originals

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
    with pytest.raises(ValueError, match=r"tiny.tar.* is damaged"), archive.OpenTar(path) as tar:
        tar.read("a/one")


# ---- bombs


@pytest.fixture
def small(monkeypatch):
    """Archives may unpack to 100 times their size, however small they are."""
    monkeypatch.setattr(unpacking, "SMALL", 0)


def limited(path):
    return rf"(?s)bomb.*unpacks to more than {100 * path.stat().st_size} bytes.*PD_UNPACK_LIMIT"


def read_all(path):
    return list(archive.tar_files(path, lambda name: True))


@pytest.mark.parametrize("wanted", [True, False])
def test_a_tar_that_unpacks_to_a_thousand_times_its_size(tmp_path, small, wanted, monkeypatch):
    path = originals.tar(tmp_path / "bomb.tgz", {"a": bytes(10 << 20)})
    with pytest.raises(pd.DamagedFile, match=limited(path)):
        list(archive.tar_files(path, lambda name: wanted))
    monkeypatch.setenv("PD_UNPACK_LIMIT", str(11 << 20))
    assert len(list(archive.tar_files(path, lambda name: True))) == 1


def test_a_zip_that_unpacks_to_a_thousand_times_its_size(tmp_path, small, monkeypatch):
    path = originals.zipped(tmp_path / "bomb.zip", {"a/b": bytes(10 << 20)})
    with pytest.raises(pd.DamagedFile, match=limited(path)):
        archive.zip_file(path, "a/b")
    with zipfile.ZipFile(path) as bomb, pytest.raises(pd.DamagedFile, match=limited(path)):
        archive.unpack(bomb, "a", str(tmp_path / "out"))
    assert [p.name for p in tmp_path.iterdir()] == ["bomb.zip"]
    monkeypatch.setenv("PD_UNPACK_LIMIT", str(11 << 20))
    assert len(archive.zip_file(path, "a/b")) == 10 << 20


def test_a_zip_that_announces_less_than_it_holds(tmp_path):
    """What it announces is read, and no more."""
    path = originals.zipped(tmp_path / "bomb.zip", {"a/b": bytes(10 << 20)})
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 10 << 20), struct.pack("<I", 9)))
    with pytest.raises(pd.DamagedFile, match=r"bomb.zip: a/b is damaged"):
        archive.zip_file(path, "a/b")


def test_a_gzip_member_and_matlab_files_have_the_same_limit(tmp_path, small):
    packed = gzip.compress(bytes(10 << 20))
    with pytest.raises(pd.DamagedFile, match=r"inner is damaged: it unpacks to more than"):
        archive.gunzipped("inner", packed)
    packed = zlib.compress(bytes(10 << 20))
    with pytest.raises(ValueError, match="it unpacks to more than"):
        unpacking.inflate(packed)
    with pytest.raises(EOFError):
        unpacking.inflate(zlib.compress(b"abc")[:-2])


def test_half_of_the_original_is_far_from_the_limit():
    assert unpacking.most_unpacked(1) == 256 << 20
    assert unpacking.most_unpacked(3 << 20) == 300 << 20


def sparse_tar(size):
    """A tar whose only member is a hole of some bytes, in GNU's old form."""
    info = tarfile.TarInfo("hole")
    info.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[483:495] = b"%011o\0" % size
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 8 * 32)
    return bytes(block) + bytes(1024)


def test_a_hole_is_no_file(tmp_path):
    (tmp_path / "tiny.tar").write_bytes(sparse_tar(8**11 - 1))
    with pytest.raises(pd.DamagedFile, match="'hole' is no plain file"):
        read_all(tmp_path / "tiny.tar")
    tar = archive.OpenTar(tmp_path / "tiny.tar")
    with tar, pytest.raises(pd.DamagedFile, match="'hole' is no plain file"):
        tar.read("hole")


def test_a_member_that_announces_more_than_the_file_has(tmp_path):
    path = originals.tar(tmp_path / "tiny.tar", {"a": b"1"}, "w")
    info = tarfile.TarInfo("a")
    info.size = 1 << 40
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(pd.DamagedFile, match=r"tiny.tar is damaged"):
        read_all(path)


# ---- odd archives


def test_links_that_lead_to_each_other(tmp_path):
    path = tmp_path / "tiny.tar"
    with tarfile.open(path, "w") as tar:
        for name, target in (("a", "b"), ("b", "a")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    with archive.OpenTar(path) as tar, pytest.raises(pd.DamagedFile, match="'a' is no plain file"):
        tar.read("a")


def test_an_encrypted_zip(tmp_path):
    path = originals.zipped(tmp_path / "tiny.zip", MEMBERS)
    raw = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = raw.rindex(signature)
        raw[at + flags] |= 1
    path.write_bytes(raw)
    with pytest.raises(pd.DamagedFile, match="a/two is damaged: it is encrypted"):
        archive.zip_file(path, "a/two")


def test_a_zip_of_a_version_to_come(tmp_path, monkeypatch):
    """Python's reader opens none; the data set says which file that is."""
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    monkeypatch.setenv("PD_DATASET_CHECK", "0")
    path = originals.zipped(tmp_path / "corpora" / "movie_reviews.zip", MEMBERS)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\1\2") + 6] = 118
    path.write_bytes(raw)
    with pytest.raises(pd.DamagedFile, match=r"movie_reviews.zip is damaged: .*version 11.8"):
        sentiment.get_word_dict()


def test_a_zip_whose_directory_lies_before_its_start(tmp_path):
    """Python's reader says "[Errno 22] Invalid argument" of it."""
    path = originals.zipped(tmp_path / "tiny.zip", MEMBERS)
    raw = bytearray(path.read_bytes())
    raw[-10:-6] = struct.pack("<I", len(raw))  # the size of the directory
    path.write_bytes(raw)
    with pytest.raises(pd.DamagedFile, match=r"tiny.zip is damaged"):
        archive.zip_file(path, "a/two")


def test_a_file_in_the_place_of_a_folder(tmp_path):
    path = originals.zipped(tmp_path / "tiny.zip", {"a/b": b"1", "a/b/c": b"2"})
    with zipfile.ZipFile(path) as tiny, pytest.raises(pd.DamagedFile, match=r"a/b/c is damaged"):
        archive.unpack(tiny, "a", str(tmp_path / "out"))
    assert [p.name for p in tmp_path.iterdir()] == ["tiny.zip"]
