"""Tables and texts that pipelines of the tutorials are fitted to: of the kinds that their data sets
have (`titanic`, `adult`, Ames' houses, rented bicycles, news, reviews), drawn by chance, with
missing values in every form that pandas has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

ROWS = 1200


def _words(text: str) -> list[str]:
    return text.split()


TOPICS = {
    "space": "orbit launch moon nasa shuttle satellite rocket mission solar astronaut",
    "autos": "engine car brakes dealer wheel mileage clutch ford honda tires",
    "medicine": "patient doctor disease treatment vitamin blood symptoms drug infection pain",
    "hockey": "team goal season playoff puck coach league score goalie penalty",
}
PLAIN = _words("the a of and to in is that it for on with as was this are be not have from")
RARE_WORDS = 20_000
GOOD = _words("great excellent loved perfect wonderful happy amazing best recommend fantastic")
BAD = _words("terrible awful broken hated worst poor waste refund disappointing slow")


class Data(NamedTuple):
    """What an estimator is fitted to, and rows that it has not seen."""

    x: Any
    y: Any
    held: Any


def _split(x: Any, y: Any, held: Any = None, share: float = 0.7) -> Data:
    cut = int(len(x) * share)
    rest = x.iloc[cut:] if hasattr(x, "iloc") else x[cut:]
    y = y.iloc[:cut] if hasattr(y, "iloc") else y[:cut]
    x = x.iloc[:cut] if hasattr(x, "iloc") else x[:cut]
    return Data(x, y, rest if held is None else held)


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _absent(rng: np.random.Generator, column: Any, share: float, value: Any = np.nan) -> Any:
    listed = np.asarray(column, object)
    listed[rng.random(len(listed)) < share] = value
    return listed


def titanic() -> Data:
    """Numbers, texts and a category; missing ages, ports and cabins; a name that nobody uses."""
    rng, n = _rng(), ROWS
    sex = rng.choice(["male", "female"], n)
    pclass = rng.choice([1, 2, 3], n)
    age = np.where(rng.random(n) < 0.2, np.nan, rng.gamma(6, 5, n).round(1))
    fare = np.where(rng.random(n) < 0.01, np.nan, rng.lognormal(3 - 0.5 * pclass, 0.8, n).round(4))
    frame = pd.DataFrame(
        {
            "pclass": pclass,
            "name": [f"Passenger, Mr. Nr {i}" for i in range(n)],
            "sex": pd.Categorical(sex),
            "age": age,
            "sibsp": rng.integers(0, 5, n),
            "parch": rng.integers(0, 4, n),
            "fare": fare,
            "embarked": _absent(rng, rng.choice(["S", "C", "Q"], n, p=[0.7, 0.2, 0.1]), 0.03),
        }
    )
    frame["embarked"] = frame["embarked"].astype(object)
    chance = 1.5 * (sex == "female") - 0.6 * pclass + 0.01 * np.nan_to_num(age, nan=30.0)
    return _split(frame, (chance + rng.normal(size=n) > 0).astype(int))


def titanic_unknown() -> Data:
    """The same with ports and classes in the held-out rows that the fit did not see."""
    data = titanic()
    held = data.held.copy()
    held.loc[held.index[::7], "embarked"] = "Southend"
    held.loc[held.index[::11], "pclass"] = 9
    return data._replace(held=held)


def adult() -> Data:
    """Strings of pandas with NaN, integers and a bool; the target is a text."""
    rng, n = _rng(), ROWS
    education = rng.choice(["HS-grad", "Bachelors", "Masters", "Doctorate", "11th"], n)
    hours, age = rng.integers(10, 80, n), rng.integers(17, 90, n)
    frame = pd.DataFrame(
        {
            "age": age,
            "workclass": pd.Series(
                _absent(rng, rng.choice(["Private", "Self-emp", "Federal-gov", "Never"], n), 0.05)
            ).astype("str"),
            "education": pd.Series(education).astype("str"),
            "hours-per-week": hours,
            "capital-gain": np.where(rng.random(n) < 0.9, 0, rng.integers(100, 9999, n)),
            "native": rng.random(n) < 0.9,
            "country": pd.Series(rng.choice([f"country {i}" for i in range(30)], n)).astype("str"),
        }
    )
    score = 0.03 * age + 0.03 * hours + (education == "Doctorate") + 0.5 * rng.normal(size=n)
    return _split(frame, pd.Series(np.where(score > 2.9, ">50K", "<=50K")))


def adult_unknown() -> Data:
    """The same with countries that the fit did not see."""
    data = adult()
    held = data.held.copy()
    held.loc[held.index[::5], "country"] = "Atlantis"
    held.loc[held.index[::6], "workclass"] = "Without-pay"
    return data._replace(held=held)


def houses() -> Data:
    """Nullable integers, booleans and strings of pandas, with pd.NA; a price."""
    rng, n = _rng(), ROWS
    area, built = rng.integers(40, 400, n), rng.integers(1900, 2020, n)
    quality = rng.choice(["Po", "Fa", "TA", "Gd", "Ex"], n)
    frame = pd.DataFrame(
        {
            "LotArea": pd.array(
                np.where(rng.random(n) < 0.1, None, area * 4 + rng.integers(0, 999, n)),
                dtype="Int64",
            ),
            "GrLivArea": area.astype(np.float32),
            "YearBuilt": built,
            "LotFrontage": np.where(rng.random(n) < 0.2, np.nan, rng.normal(70, 20, n)),
            "ExterQual": quality,
            "CentralAir": pd.array(rng.random(n) < 0.8, dtype="boolean"),
            "Neighborhood": pd.array(
                _absent(rng, rng.choice(["NAmes", "OldTown", "Edwards"], n), 0.05, pd.NA),
                dtype="string",
            ),
            "SaleType": pd.Categorical(_absent(rng, rng.choice(["WD", "New", "COD"], n), 0.1)),
        }
    )
    worth = {"Po": 0.6, "Fa": 0.8, "TA": 1.0, "Gd": 1.2, "Ex": 1.6}
    price = 900.0 * area * np.vectorize(worth.get)(quality) + 300 * (built - 1900)
    return _split(frame, price * rng.lognormal(0, 0.1, n))


def houses_numbers() -> Data:
    """Those columns of the houses that are numbers."""
    data = houses()
    names = ["LotArea", "GrLivArea", "YearBuilt", "LotFrontage"]
    return Data(*(f[names].astype(float) if f is not data.y else f for f in data))


def bikes() -> Data:
    """Categories of pandas, with one of them missing in places, and numbers; a count."""
    rng, n = _rng(), ROWS
    hour, temp = rng.integers(0, 24, n), rng.normal(15, 8, n).round(2)
    frame = pd.DataFrame(
        {
            "season": pd.Categorical(rng.choice(["spring", "summer", "fall", "winter"], n)),
            "holiday": pd.Categorical(rng.choice(["False", "True"], n, p=[0.95, 0.05])),
            "weather": pd.Categorical(
                _absent(rng, rng.choice(["clear", "misty", "rain"], n), 0.04)
            ),
            "weekday": rng.integers(0, 7, n),
            "hour": hour,
            "temp": np.where(rng.random(n) < 0.05, np.nan, temp),
        }
    )
    return _split(frame, rng.poisson(np.exp(1 + np.sin(hour / 4) + 0.04 * temp)) / 10.0)


def _text(rng: np.random.Generator, words: list[str], length: int) -> str:
    listed = [_word(rng, words) for _ in range(length)]
    listed[0] = listed[0].capitalize()
    return " ".join(listed) + str(rng.choice([".", "!", "?", " 2024.", ""]))


def _word(rng: np.random.Generator, words: list[str]) -> str:
    """A word of the topic, a common one, or one of thousands as they are distributed in texts."""
    chance = rng.random()
    if chance < 0.5:
        return str(rng.choice(words if chance < 0.2 else PLAIN))
    rank = min(int(rng.zipf(1.2)), RARE_WORDS)
    return "".join("bcdfglmnprst"[rank // 5**i % 12] + "aeiou"[rank // 3**i % 5] for i in range(4))


def news() -> Data:
    """Texts of four topics."""
    rng = _rng()
    topics = rng.choice(sorted(TOPICS), ROWS)
    texts = [_text(rng, TOPICS[t].split(), int(rng.integers(20, 200))) for t in topics]
    texts[-1], texts[-2], texts[-3] = "", "Weltraum — été, naïve Ωmega", "NASA nasa N.A.S.A."
    return _split(texts, topics)


def news_frame() -> Data:
    """Subjects and bodies of the same, as two columns."""
    rng = _rng()
    topics = rng.choice(sorted(TOPICS), ROWS)
    frame = pd.DataFrame(
        {
            "subject": [_text(rng, TOPICS[t].split(), 4) for t in topics],
            "body": [_text(rng, TOPICS[t].split(), int(rng.integers(20, 200))) for t in topics],
        }
    )
    return _split(frame, topics)


def reviews() -> Data:
    """A text, a category, a rating that is missing in places and a flag."""
    rng, n = _rng(), ROWS
    liked = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "text": [_text(rng, GOOD if y else BAD, int(rng.integers(4, 25))) for y in liked],
            "department": _absent(rng, rng.choice(["Dresses", "Tops", "Bottoms"], n), 0.04),
            "age": rng.integers(18, 90, n).astype(float),
            "rating": np.where(rng.random(n) < 0.1, np.nan, rng.integers(1, 6, n)),
            "verified": rng.random(n) < 0.7,
        }
    )
    frame["department"] = frame["department"].astype(object)
    return _split(frame, liked)


def built_in(name: str, *, frame: bool = False, share: float = 0.0) -> Callable[[], Data]:
    """A data set of scikit-learn in random order, with a share of its numbers missing."""

    def make() -> Data:
        from sklearn import datasets

        given = getattr(datasets, f"load_{name}")(as_frame=frame)
        order = _rng().permutation(len(given.data))
        x = given.data.iloc[order] if frame else given.data[order]
        y = given.target.iloc[order] if frame else given.target[order]
        if share:
            x = x.mask(_rng().random(x.shape) < share) if frame else x.copy()
            if not frame:
                x[_rng().random(x.shape) < share] = np.nan
        return _split(x, y)

    return make


def generated(name: str, **options: Any) -> Callable[[], Data]:
    """A data set that scikit-learn generates."""

    def make() -> Data:
        from sklearn import datasets

        return _split(*getattr(datasets, f"make_{name}")(random_state=0, **options))

    return make
