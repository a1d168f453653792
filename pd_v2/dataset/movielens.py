"""MovieLens 1M: a million ratings of 3,883 films by 6,040 people.

A sample is [user id, gender (0 male, 1 female), index into age_table, job id, film id, category
ids, title word ids, [rating]]; one to five stars are ratings of -3, -1, 1, 3 and 5.

Categories and title words are numbered in alphabetical order; 2017 took the order of a set.
"""

import functools
import random
import re
from array import array

from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files import text as words

__all__ = [
    *("age_table", "convert", "get_movie_title_dict", "max_job_id", "max_movie_id", "max_user_id"),
    *("movie_categories", "movie_info", "test", "train", "user_info"),
]

URL = "http://files.grouplens.org/datasets/movielens/ml-1m.zip"
MD5 = "c4d9eecfca2ab87c1945afe126590906"

age_table = [1, 18, 25, 35, 45, 50, 56]

# Filled on first use.
MOVIE_INFO = None
MOVIE_TITLE_DICT = None
CATEGORIES_DICT = None
USER_INFO = None

_ENCODING = "latin-1"
_TITLE = re.compile(r"^(.*)\((\d+)\)$")


class MovieInfo:
    """A film: its id, the names of its categories and its title without the year."""

    def __init__(self, index, categories, title):
        self.index = int(index)
        self.categories = categories
        self.title = title

    def value(self):
        """Return [id, category ids, title word ids], the film's part of a sample."""
        _load()
        return [
            self.index,
            [CATEGORIES_DICT[category] for category in self.categories],
            [MOVIE_TITLE_DICT[word] for word in _title_words(self.title)],
        ]

    def __str__(self):
        categories = ", ".join(self.categories)
        return f"<MovieInfo id({self.index}), title({self.title}), categories({categories})>"

    __repr__ = __str__


class UserInfo:
    """A person: id, is_male, the index of the age in age_table, and job id."""

    def __init__(self, index, gender, age, job_id):
        self.index = int(index)
        self.is_male = gender == "M"
        self.age = age_table.index(int(age))
        self.job_id = int(job_id)

    def value(self):
        """Return [id, gender, age, job id], the person's part of a sample."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __str__(self):
        gender, age = "M" if self.is_male else "F", age_table[self.age]
        return f"<UserInfo id({self.index}), gender({gender}), age({age}), job({self.job_id})>"

    __repr__ = __str__


def __reader_creator__(rand_seed=0, test_ratio=0.1, is_test=False):
    """Return the samples of the training or test set, split by one random draw per rating."""
    _load()
    ratings = functools.cache(_ratings)
    people = {index: user.value() for index, user in USER_INFO.items()}
    films = {index: movie.value() for index, movie in MOVIE_INFO.items()}

    def samples():
        draw = random.Random(rand_seed).random  # noqa: S311  the split of 2017
        for user, movie, rating in zip(*ratings(), strict=True):
            if (draw() < test_ratio) == is_test:
                index, categories, title = films[movie]
                yield [*people[user], index, [*categories], [*title], [rating]]

    return Samples(samples)


train = functools.partial(__reader_creator__, is_test=False)
test = functools.partial(__reader_creator__, is_test=True)


def get_movie_title_dict():
    """Return {lowercase word: id} of all titles."""
    _load()
    return MOVIE_TITLE_DICT


def movie_categories():
    """Return {category: id}."""
    _load()
    return CATEGORIES_DICT


def movie_info():
    """Return {film id: MovieInfo}."""
    _load()
    return MOVIE_INFO


def user_info():
    """Return {user id: UserInfo}."""
    _load()
    return USER_INFO


def max_movie_id():
    """Return the largest film id."""
    return max(movie_info())


def max_user_id():
    """Return the largest user id."""
    return max(user_info())


def max_job_id():
    """Return the largest job id."""
    return max(user.job_id for user in user_info().values())


def unittest():
    """Print the numbers of training and test samples, users, films, categories and title words."""
    counts = [sum(1 for _ in reader()) for reader in (train(), test())]
    print("train {}, test {}".format(*counts))
    print(
        f"users {len(user_info())}, movies {len(movie_info())}, "
        f"categories {len(movie_categories())}, title words {len(get_movie_title_dict())}"
    )


def fetch():
    """Download the archive into the cache."""
    _file()


def convert(path):
    """Write both sets as RecordIO files."""
    common.convert(path, train(), 1000, "movielens_train")
    common.convert(path, test(), 1000, "movielens_test")


def _load():
    """Fill the tables of this module."""
    global MOVIE_INFO, MOVIE_TITLE_DICT, CATEGORIES_DICT, USER_INFO
    if MOVIE_INFO is not None:
        return
    movies, users = _movies(), _users()
    MOVIE_TITLE_DICT = _numbers(word for m in movies.values() for word in _title_words(m.title))
    CATEGORIES_DICT = _numbers(name for m in movies.values() for name in m.categories)
    MOVIE_INFO, USER_INFO = movies, users


def _file():
    return common.download(URL, "movielens", MD5)


def _movies():
    movies = {}
    for number, (index, title, categories) in enumerate(_rows("movies.dat", 3), 1):
        parts = _TITLE.match(title)
        if parts is None:
            raise _line_error("movies.dat", number, f"the title {title!r} ends without (year)")
        movie = MovieInfo(_number("movies.dat", number, index), categories.split("|"), parts[1])
        movies[movie.index] = movie
    return _require_rows("movies.dat", movies)


def _users():
    users = {}
    for number, (index, gender, age, job, _) in enumerate(_rows("users.dat", 5), 1):
        if not age.isdigit() or int(age) not in age_table:
            raise _line_error("users.dat", number, f"the age {age} is none of {age_table}")
        index, age, job = (_number("users.dat", number, text) for text in (index, age, job))
        users[index] = UserInfo(index, gender, age, job)
    return _require_rows("users.dat", users)


def _rows(name, fields):
    """Yield the fields of each line of a file in the archive."""
    content = archive.zip_file(_file(), f"ml-1m/{name}")
    for number, line in enumerate(words.lines(content), 1):
        row = line.strip().decode(_ENCODING).split("::")
        if len(row) != fields:
            raise _line_error(name, number, f"it has {len(row)} fields, expected {fields}")
        yield row


def _ratings():
    """Read the user ids, film ids and values of all ratings, as arrays."""
    users, movies, values = array("q"), array("q"), array("d")
    for number, (user, movie, stars, _) in enumerate(_rows("ratings.dat", 4), 1):
        user, movie, stars = (_number("ratings.dat", number, text) for text in (user, movie, stars))
        for name, index, table in (("user", user, USER_INFO), ("film", movie, MOVIE_INFO)):
            if index not in table:
                raise _line_error("ratings.dat", number, f"there is no {name} {index}")
        users.append(user)
        movies.append(movie)
        values.append(stars * 2.0 - 5)
    return users, movies, values


def _number(name, number, text):
    """Parse an integer of at most 9 digits."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _line_error(name, number, f"{text!r} is no number")
    return int(text)


def _require_rows(name, rows):
    if not rows:
        raise archive.damaged(f"{_file()}: ml-1m/{name}", "it has no lines")
    return rows


def _line_error(name, number, problem):
    return archive.damaged(f"{_file()}: ml-1m/{name}, line {number}", problem)


def _title_words(title):
    """Return the lowercase words of a title, split and lowered as bytes."""
    return [word.decode(_ENCODING) for word in title.encode(_ENCODING).lower().split()]


def _numbers(names):
    return words.indexed(sorted(set(names)))
