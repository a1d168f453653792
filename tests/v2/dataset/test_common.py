import hashlib
import logging
import os
import pickle
import random
import shutil
import subprocess
import sys

import pytest

from pd_v2.dataset import common, mnist, uci_housing
from pd_v2.reader import creator

CONTENT = b"some data"
MD5 = hashlib.md5(CONTENT).hexdigest()
WRONG = "0" * 32


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache, which does not exist yet."""
    monkeypatch.delenv("PD_DATASET_CHECK", raising=False)
    monkeypatch.delenv("PD_DATASET_MD5", raising=False)
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lost_url(tmp_path):
    return (tmp_path / "lost.bin").as_uri()


def cached(home, name, content):
    path = home / "digits" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def test_download_then_use_the_cache(home, url, tmp_path):
    path = common.download(url, "digits", MD5)
    assert path == str(home / "digits" / "source.bin")
    assert (home / "digits" / "source.bin").read_bytes() == CONTENT
    (tmp_path / "source.bin").unlink()
    assert common.download(url, "digits", MD5) == path


def test_download_under_another_name(home, url):
    assert common.download(url, "digits", MD5, "other") == str(home / "digits" / "other")
    assert (home / "digits" / "other").read_bytes() == CONTENT


def test_a_file_without_md5_is_taken_as_it_is(home, lost_url):
    path = cached(home, "lost.bin", b"anything")
    assert common.download(lost_url, "digits", None) == str(path)


def test_a_wrong_file_is_replaced(home, url):
    path = cached(home, "source.bin", b"stale")
    common.download(url, "digits", MD5)
    assert path.read_bytes() == CONTENT


def test_missing_and_offline_says_which_file_to_put_where(home, lost_url):
    with pytest.raises(RuntimeError) as caught:
        common.download(lost_url, "digits", MD5)
    first, url_line, file_line, hint = str(caught.value).splitlines()
    assert first.startswith(
        "dataset digits: lost.bin is not in the cache and cannot be downloaded: 3 tries failed"
    )
    assert url_line == f"  url   {lost_url}"
    assert file_line == f"  file  {home / 'digits' / 'lost.bin'}"
    assert "PD_DATASET_HOME to a folder with digits/lost.bin" in hint


def test_wrong_and_offline_tells_both_ways_to_accept_it(home, lost_url):
    path = cached(home, "lost.bin", CONTENT)
    with pytest.raises(RuntimeError) as caught:
        common.download(lost_url, "digits", WRONG)
    first, _, file_line, hint = str(caught.value).splitlines()
    assert f"the cached lost.bin has md5 {MD5}, expected {WRONG}, and cannot be replaced" in first
    assert file_line == f"  file  {path}"
    assert f"set PD_DATASET_MD5={MD5}, or write that into lost.bin.md5" in hint
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("listed", ["{}", "{},{}", " {0} , {1},", "{1} {0}"])
def test_a_file_that_the_environment_names(home, lost_url, monkeypatch, caplog, listed):
    path = cached(home, "lost.bin", CONTENT)
    monkeypatch.setenv("PD_DATASET_MD5", listed.format(MD5.upper(), "1" * 32))
    with caplog.at_level(logging.INFO, "paddle"):
        for _ in range(2):
            assert common.download(lost_url, "digits", WRONG) == str(path)
    assert caplog.messages == [f"{path} is used with md5 {MD5}, not {WRONG} (as the user says)"]


@pytest.mark.parametrize(
    "listing",
    [
        "{md5}",
        "{md5}\n",
        "{md5}  lost.bin\n",
        "{md5} *lost.bin\n",
        "# ours\n\n{other}  other.bin\n{md5}  ./some/folder/lost.bin\n",
        "MD5 (lost.bin) = {md5}\n",
    ],
)
def test_a_file_that_a_file_beside_it_names(home, lost_url, listing):
    path = cached(home, "lost.bin", CONTENT)
    (path.parent / "lost.bin.md5").write_text(listing.format(md5=MD5, other="1" * 32))
    assert common.download(lost_url, "digits", WRONG) == str(path)


@pytest.mark.skipif(shutil.which("md5sum") is None, reason="md5sum is not installed")
def test_a_listing_of_md5sum(home, lost_url):
    path = cached(home, "lost.bin", CONTENT)
    listing = subprocess.run(["md5sum", path], capture_output=True, text=True, check=True).stdout
    (path.parent / "lost.bin.md5").write_text(listing)
    assert common.download(lost_url, "digits", WRONG) == str(path)


def test_a_listing_of_another_file_or_content_accepts_nothing(home, lost_url, monkeypatch):
    path = cached(home, "lost.bin", CONTENT)
    (path.parent / "lost.bin.md5").write_text(f"{MD5}  other.bin\n")
    monkeypatch.setenv("PD_DATASET_MD5", "1" * 32)
    expected = f"expected {WRONG} or {'1' * 32}, and cannot be replaced"
    with pytest.raises(RuntimeError, match=expected):
        common.download(lost_url, "digits", WRONG)


def test_the_published_content_stays_accepted(home, lost_url, monkeypatch, caplog):
    path = cached(home, "lost.bin", CONTENT)
    (path.parent / "lost.bin.md5").write_text(WRONG)
    monkeypatch.setenv("PD_DATASET_MD5", "1" * 32)
    with caplog.at_level(logging.INFO, "paddle"):
        assert common.download(lost_url, "digits", MD5) == str(path)
    assert caplog.messages == []


def test_a_download_that_the_user_names(home, url, monkeypatch):
    message = rf"received 9 bytes with md5 {MD5}, expected {WRONG}; PD_DATASET_MD5={MD5} accepts"
    with pytest.raises(RuntimeError, match=message):
        common.download(url, "digits", WRONG)
    assert not (home / "digits" / "source.bin").exists()
    monkeypatch.setenv("PD_DATASET_MD5", MD5)
    assert common.download(url, "digits", WRONG) == str(home / "digits" / "source.bin")


@pytest.mark.parametrize("line", ["no sum", "", "12345", "g" * 32])
def test_lists_of_sums_that_are_none(home, lost_url, monkeypatch, line):
    path = cached(home, "lost.bin", CONTENT)
    (path.parent / "lost.bin.md5").write_text(f"{MD5}\n{line or 'z'}\n")
    with pytest.raises(
        ValueError, match=r"lost\.bin\.md5:2: expected an md5 sum, or a line of md5sum"
    ):
        common.download(lost_url, "digits", WRONG)
    (path.parent / "lost.bin.md5").unlink()
    monkeypatch.setenv("PD_DATASET_MD5", f"{MD5},{line or 'z'}")
    with pytest.raises(ValueError, match=r"PD_DATASET_MD5 is a list of md5 sums, .* not '"):
        common.download(lost_url, "digits", WRONG)


def test_without_check_a_wrong_file_is_used_and_reported_once(home, lost_url, monkeypatch, caplog):
    path = cached(home, "lost.bin", CONTENT)
    monkeypatch.setenv("PD_DATASET_CHECK", "0")
    other = path.with_name("other.bin")
    other.write_bytes(b"other")
    with caplog.at_level(logging.INFO, "paddle"):
        for file in (path, other, path):
            assert common.download(lost_url, "digits", WRONG, file.name) == str(file)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert caplog.messages == [f"files in {home} are used whatever their md5 (PD_DATASET_CHECK=0)"]


def test_without_check_a_missing_file_is_still_downloaded(home, url, monkeypatch):
    monkeypatch.setenv("PD_DATASET_CHECK", "0")
    common.download(url, "digits", MD5)
    assert (home / "digits" / "source.bin").read_bytes() == CONTENT


def imported_data_home(**environment):
    """DATA_HOME in a new process, and whether importing made the folder."""
    code = (
        "import os; from pd_v2.dataset import common; "
        "print(common.DATA_HOME, os.path.exists(common.DATA_HOME))"
    )
    inherited = {k: v for k, v in os.environ.items() if k != "PD_DATASET_HOME"}
    inherited["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_data_home_from_the_environment(tmp_path):
    home = tmp_path / "sets"
    assert imported_data_home(PD_DATASET_HOME=str(home)) == f"{home} False"


def test_data_home_by_default(tmp_path):
    expected = tmp_path / ".cache" / "paddle" / "dataset"
    assert imported_data_home(HOME=str(tmp_path)) == f"{expected} False"


def test_fetch_all_fetches_every_dataset(home, monkeypatch):
    asked = []
    monkeypatch.setattr(common, "download", lambda url, *rest: asked.append(url))
    for folder in ("corpora/movie_reviews", "MQ2007/MQ2007"):  # what is unpacked already
        (home / folder).mkdir(parents=True)
    common.fetch_all()
    urls = {mnist.TRAIN_IMAGE_URL, mnist.TRAIN_LABEL_URL, mnist.TEST_IMAGE_URL}
    assert urls | {mnist.TEST_LABEL_URL, uci_housing.URL} <= set(asked)


@pytest.mark.parametrize(
    ("samples", "sizes"), [(10, [5, 4, 1]), (8, [5, 3]), (5, [5]), (3, [3]), (0, [])]
)
def test_split_and_read_again(tmp_path, samples, sizes):
    common.split(lambda: range(samples), 4, suffix=str(tmp_path / "part-%05d"))
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [f"part-{i:05d}" for i in range(len(sizes))]
    assert [len(pickle.loads(path.read_bytes())) for path in files] == sizes
    if files:
        whole = common.cluster_files_reader(str(tmp_path / "part-*"), 1, 0)
        assert list(whole()) == list(range(samples))


def test_each_trainer_reads_its_share_of_the_files(tmp_path):
    common.split(lambda: range(10), 4, suffix=str(tmp_path / "%05d"))
    pattern = str(tmp_path / "*")
    shares = [list(common.cluster_files_reader(pattern, 2, i)()) for i in range(2)]
    assert shares == [[0, 1, 2, 3, 4, 9], [5, 6, 7, 8]]
    assert list(common.cluster_files_reader(pattern, 4, 3)()) == []


def test_files_that_python_2_split(tmp_path):
    """cPickle.dumps([('caf\\xe9', 1)]) of Python 2.7, in protocol 0 and 2."""
    (tmp_path / "0").write_bytes(b"(lp1\n(S'caf\\xe9'\np2\nI1\ntp3\na.")
    (tmp_path / "1").write_bytes(b"\x80\x02]q\x01U\x04caf\xe9q\x02K\x01\x86q\x03a.")
    reader = common.cluster_files_reader(str(tmp_path / "*"), 1, 0)
    assert list(reader()) == [("caf\u00e9", 1)] * 2


def test_split_with_another_format(tmp_path):
    def write(samples, file):
        file.write(",".join(map(str, samples)).encode())

    def read(file):
        return file.read().decode().split(",")

    common.split(lambda: range(3), 5, str(tmp_path / "%d.csv"), dumper=write)
    reader = common.cluster_files_reader(str(tmp_path / "*.csv"), 1, 0, loader=read)
    assert list(reader()) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("samples", "sizes"), [(10, [5, 4, 1]), (9, [5, 4, 0]), (5, [5, 0]), (0, [0])]
)
def test_convert_cuts_into_shuffled_files(tmp_path, samples, sizes):
    random.seed(0)
    common.convert(str(tmp_path), lambda: range(samples), 4, "part")
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [f"part-{i:05d}" for i in range(len(sizes))]
    contents = [list(creator.recordio(str(path))()) for path in files]
    assert [len(content) for content in contents] == sizes
    assert [sample for content in contents for sample in sorted(content)] == list(range(samples))
    assert samples < 9 or contents[0] != sorted(contents[0])


def test_fetch_all_recordio_writes_a_folder_per_dataset(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(mnist, "convert", written.append)
    monkeypatch.setattr(uci_housing, "convert", written.append)
    monkeypatch.setattr(common, "_datasets", lambda function: [mnist, uci_housing])
    common.fetch_all_recordio(str(tmp_path))
    assert written == [str(tmp_path / "mnist"), str(tmp_path / "uci_housing")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mnist", "uci_housing"]


@pytest.mark.parametrize("function", ["fetch", "convert"])
def test_every_dataset_is_found_but_not_this_module(function):
    found = common._datasets(function)
    assert {mnist, uci_housing} <= set(found)
    assert common not in found


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: common.split([1], 4), TypeError, "split: a reader is a function .* got list"),
        (lambda: common.split(list, 4, dumper=3), TypeError, "split: dumper must .* got int"),
        (lambda: common.split(list, 0), ValueError, "split: line_count must be .* got 0"),
        (lambda: common.convert("", 3, 4, ""), TypeError, "convert: a reader is .* got int"),
        (lambda: common.convert("", list, 0, ""), ValueError, "convert: line_count must .* got 0"),
        (
            lambda: common.cluster_files_reader("*", 2, 2),
            ValueError,
            "cluster_files_reader: trainer_id 2 is not one of 2 trainers",
        ),
        (lambda: common.cluster_files_reader("*", 2, 0, 3), TypeError, "loader must .* got 3"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_pattern_without_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file matches '.*/none-\*'"):
        list(common.cluster_files_reader(str(tmp_path / "none-*"), 1, 0)())
