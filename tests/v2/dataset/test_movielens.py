import random
import re
from collections import Counter

import pytest

from pd_v2.dataset import movielens
from pd_v2.reader import creator

from . import originals

MOVIES = [
    (2, "Toy Story (1995)", ["Animation", "Comedy"]),
    (1, "The Story, the (Toy) (2000)", ["Drama"]),
    (7, "\u00c9t\u00e9\u00a0x (1950)", ["Comedy"]),
]
USERS = [(3, "F", 1, 10), (1, "M", 56, 4)]
RATINGS = [(1 + 2 * (i % 2), (2, 1, 7)[i % 3], 1 + i % 5) for i in range(60)]
# The numbers of Python 2's generator with the same seed.
DRAWS = [0.844422, 0.757954, 0.420572, 0.258917, 0.511275]

TITLE_WORDS = ["(toy)", "story", "story,", "the", "toy", "\u00c9t\u00e9\u00a0x"]
CATEGORIES = ["Animation", "Comedy", "Drama"]


@pytest.fixture(autouse=True)
def empty_tables(monkeypatch):
    for name in ("MOVIE_INFO", "MOVIE_TITLE_DICT", "CATEGORIES_DICT", "USER_INFO"):
        monkeypatch.setattr(movielens, name, None)


@pytest.fixture
def archive(home):
    return originals.movielens(home, MOVIES, USERS, RATINGS)


def test_tables(archive):
    assert movielens.get_movie_title_dict() == {w: i for i, w in enumerate(TITLE_WORDS)}
    assert movielens.movie_categories() == {c: i for i, c in enumerate(CATEGORIES)}
    assert (movielens.max_movie_id(), movielens.max_user_id(), movielens.max_job_id()) == (7, 3, 10)
    assert set(movielens.movie_info()) == {1, 2, 7}
    assert set(movielens.user_info()) == {1, 3}
    assert movielens.age_table == [1, 18, 25, 35, 45, 50, 56]


def test_what_describes_a_user(archive):
    user = movielens.user_info()[3]
    assert (user.index, user.is_male, user.age, user.job_id) == (3, False, 0, 10)
    assert user.value() == [3, 1, 0, 10]
    assert movielens.user_info()[1].value() == [1, 0, 6, 4]
    assert str(user) == repr(user) == "<UserInfo id(3), gender(F), age(1), job(10)>"


def test_what_describes_a_film(archive):
    film = movielens.movie_info()[2]
    assert (film.index, film.categories, film.title) == (2, ["Animation", "Comedy"], "Toy Story ")
    assert film.value() == [2, [0, 1], [4, 1]]
    assert movielens.movie_info()[1].value() == [1, [2], [3, 2, 3, 0]]
    assert movielens.movie_info()[7].value() == [7, [1], [5]]
    expected = "<MovieInfo id(2), title(Toy Story ), categories(Animation, Comedy)>"
    assert str(film) == repr(film) == expected


def expected_samples(is_test):
    draw = random.Random(0)
    draws = [draw.random() for _ in RATINGS]
    assert [round(value, 6) for value in draws[:5]] == DRAWS
    users = {3: [3, 1, 0, 10], 1: [1, 0, 6, 4]}
    movies = {2: [2, [0, 1], [4, 1]], 1: [1, [2], [3, 2, 3, 0]], 7: [7, [1], [5]]}
    ratings = {1: -3.0, 2: -1.0, 3: 1.0, 4: 3.0, 5: 5.0}
    return [
        users[user] + movies[movie] + [[ratings[stars]]]
        for value, (user, movie, stars) in zip(draws, RATINGS, strict=True)
        if (value < 0.1) == is_test
    ]


def test_samples_are_split_by_a_seeded_draw(archive):
    train, test = list(movielens.train()()), list(movielens.test()())
    assert train == expected_samples(False)
    assert test == expected_samples(True)
    assert len(test) > 2 and len(train) > 40


def test_another_seed_and_share(archive):
    half = list(movielens.train(rand_seed=1, test_ratio=0.5))
    other = list(movielens.test(rand_seed=1, test_ratio=0.5))
    assert 15 < len(half) < 45 and len(half) + len(other) == 60
    assert Counter(map(str, half + other)) == Counter(
        map(str, expected_samples(True) + expected_samples(False))
    )


def test_the_reader_can_be_called_or_iterated(archive):
    reader = movielens.test()
    first = list(reader())
    first[0][5].append("changed")
    assert list(reader) == list(reader()) != first


def test_unittest_prints_counts(archive, capsys):
    movielens.unittest()
    count = len(expected_samples(True))
    assert capsys.readouterr().out.splitlines() == [
        f"train {60 - count}, test {count}",
        "users 2, movies 3, categories 3, title words 6",
    ]


@pytest.mark.parametrize(
    ("movies", "users", "ratings", "message"),
    [
        ([(1, "No year", ["a"])], USERS, [], "movies.dat, line 1 .*'No year' ends without .year"),
        ([(1, "A::B (1990)", ["a"])], USERS, [], "movies.dat, line 1 .*has 4 fields, expected 3"),
        (MOVIES, [*USERS, (5, "M", 19, 0)], [], "users.dat, line 3 .* age 19 is none of .1, 18"),
        (MOVIES, USERS, [(1, 2, 3), (2, 1, 1)], "ratings.dat, line 2 .*there is no user 2"),
        (MOVIES, USERS, [(1, 3, 3)], "ratings.dat, line 1 .*there is no film 3"),
    ],
)
def test_a_wrong_line_is_named(home, movies, users, ratings, message):
    originals.movielens(home, movies, users, ratings)
    with pytest.raises(ValueError, match=re.escape("ml-1m.zip: ml-1m/") + message):
        list(movielens.train())


def test_convert_writes_both_sets(archive, tmp_path):
    movielens.convert(str(tmp_path))
    for name, is_test in (("movielens_train", False), ("movielens_test", True)):
        samples = list(creator.recordio(str(tmp_path / f"{name}-00000"))())
        assert sorted(map(str, samples)) == sorted(map(str, expected_samples(is_test)))


def test_fetch_asks_for_the_original(asked):
    movielens.fetch()
    assert asked == [("ml-1m.zip", "movielens", "c4d9eecfca2ab87c1945afe126590906")]
