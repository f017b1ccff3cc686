"""Who is admitted, to what, and how often."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from infuse.errors import AccessError, ConfigurationError, OverloadError
from infuse.serving.config import Limits, Security, ServerConfig, Token
from infuse.serving.control.statuses import grpc_code, http_status
from infuse.serving.transports.security import Guard, Role, caller_address, new_token
from infuse.serving.transports.security.rates import Rates

pytestmark = pytest.mark.row("S9")

CALLER = "10.1.2.3"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def guard(*tokens: Token, clock: Clock | None = None, **limits: Any) -> Guard:
    config = ServerConfig(security=Security(tokens=tokens), limits=Limits(**limits))
    return Guard(config, clock or Clock())


def shown(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


INFER = Token(sha256=hashed("i"), role="infer", name="app")
ADMIN = Token(sha256=hashed("a"), role="admin", name="operator")
TENANT = Token(sha256=hashed("t"), role="infer", name="tenant", models=("mine",))
OWNER = Token(sha256=hashed("o"), role="admin", models=("mine",))
EVERYBODY = (INFER, ADMIN, TENANT, OWNER)


def test_without_tokens_everybody_may_do_everything() -> None:
    roles: tuple[Role, ...] = ("infer", "watch", "admin", "health")
    assert [guard().admit({}, CALLER, role).name for role in roles] == [""] * 4


@pytest.mark.parametrize(
    ("token", "role", "model", "name"),
    [
        ("i", "infer", "mine", "app"),
        ("i", "watch", "", "app"),
        ("a", "infer", "mine", "operator"),
        ("a", "admin", "mine", "operator"),
        ("a", "admin", "", "operator"),
        ("t", "infer", "mine", "tenant"),
        ("t", "infer", "", "tenant"),
        ("o", "admin", "mine", hashed("o")[:8]),
    ],
)
def test_a_token_allows(token: str, role: Role, model: str, name: str) -> None:
    assert guard(*EVERYBODY).admit(shown(token), CALLER, role, model).name == name


@pytest.mark.parametrize(
    ("token", "role", "model", "part"),
    [
        ("i", "admin", "mine", "may infer, but not change"),
        ("t", "infer", "other", "not for the model 'other'"),
        ("t", "admin", "mine", "may infer, but not change"),
        ("t", "watch", "", "this concerns all"),
        ("o", "admin", "other", "not for the model 'other'"),
        ("o", "admin", "", "this concerns all"),
    ],
)
def test_a_token_does_not_allow(token: str, role: Role, model: str, part: str) -> None:
    with pytest.raises(AccessError, match=part) as caught:
        guard(*EVERYBODY).admit(shown(token), CALLER, role, model)
    assert (http_status(caught.value), grpc_code(caught.value)) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        shown("x"),
        shown(""),
        shown("\udcff"),
        {"authorization": "a"},
        {"authorization": "Basic a"},
        {"authorization": f"Bearer {hashed('a')}"},
    ],
)
def test_who_shows_no_valid_token_is_unknown(headers: dict[str, str]) -> None:
    with pytest.raises(AccessError) as caught:
        guard(*EVERYBODY).admit(headers, CALLER, "infer", "mine")
    assert (http_status(caught.value), grpc_code(caught.value)) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("header", ["bearer i", "BEARER  i ", "Bearer i"])
def test_the_scheme_is_read_as_http_writes_it(header: str) -> None:
    assert guard(INFER).admit({"authorization": header}, CALLER, "infer").name == "app"


def test_health_needs_no_token_and_has_no_limit() -> None:
    door = guard(INFER, requests_per_second=1, burst=1)
    assert {door.admit({}, CALLER, "health").name for _ in range(5)} == {""}


def test_a_made_token_is_long_random_and_has_its_hash() -> None:
    (one, digest), (other, _) = new_token(), new_token()
    assert one != other
    assert len(one) >= 43
    assert digest == hashed(one)
    assert (
        guard(Token(sha256=digest.upper(), role="infer", name="n"))
        .admit(shown(one), CALLER, "infer")
        .name
        == "n"
    )


@pytest.mark.parametrize(
    ("tokens", "part"),
    [
        ((Token(sha256="secret", role="infer"),), "not 64 hexadecimal digits"),
        ((Token(sha256=hashed(""), role="infer"),), "empty text"),
        ((INFER, Token(sha256=hashed("i"), role="admin")), "there twice"),
    ],
)
def test_a_hash_that_is_none_is_refused_at_the_start(tokens: tuple[Token, ...], part: str) -> None:
    with pytest.raises(ConfigurationError, match=part) as caught:
        guard(*tokens)
    assert "security.tokens[" in str(caught.value)


def test_a_rate_limit_counts_addresses() -> None:
    clock = Clock()
    door = guard(clock=clock, requests_per_second=2, burst=3)
    for _ in range(3):
        door.admit({}, CALLER, "infer")
    with pytest.raises(OverloadError) as caught:
        door.admit({}, f"ipv4:{CALLER}:5000", "infer")
    assert caught.value.retry_after == pytest.approx(0.5)
    door.admit({}, "10.1.2.4", "infer")
    clock.now += 0.5
    door.admit({}, CALLER, "infer")
    with pytest.raises(OverloadError):
        door.admit({}, CALLER, "infer")


def test_a_rate_limit_counts_tokens_wherever_they_come_from() -> None:
    door = guard(INFER, ADMIN, requests_per_second=1, burst=1)
    door.admit(shown("i"), CALLER, "infer")
    with pytest.raises(OverloadError):
        door.admit(shown("i"), "10.9.9.9", "infer")
    door.admit(shown("a"), CALLER, "infer")


def test_who_guesses_tokens_is_slowed_down_and_hurts_no_holder() -> None:
    door = guard(INFER, requests_per_second=1, burst=2)
    for _ in range(2):
        with pytest.raises(AccessError):
            door.admit(shown("guess"), CALLER, "infer")
    with pytest.raises(OverloadError):
        door.admit(shown("guess"), CALLER, "infer")
    assert door.admit(shown("i"), CALLER, "infer").name == "app"


def test_many_addresses_neither_fill_memory_nor_get_around_the_limit() -> None:
    clock = Clock()
    rates = Rates(1, 2, clock, callers=10)
    admitted = 0
    for number in range(1000):
        try:
            rates.take(f"caller{number}")
            admitted += 1
        except OverloadError:
            continue
    assert len(rates) == 10
    assert admitted == 10 + 2  # those with a bucket, and the burst of the one that all others share
    clock.now += 10
    rates.take("late")
    assert len(rates) == 10


def test_a_forgotten_caller_has_gained_nothing() -> None:
    clock = Clock()
    rates = Rates(1, 2, clock, callers=1)
    rates.take("first")
    rates.take("first")
    clock.now += 1
    rates.take("other")
    assert len(rates) == 1
    rates.take("first")  # the one permission that a second has brought
    with pytest.raises(OverloadError):
        rates.take("first")


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("1.2.3.4:80", "1.2.3.4"),
        ("ipv4:1.2.3.4:80", "1.2.3.4"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::1", "::/64"),
        ("[2001:db8:1:2::9]:443", "2001:db8:1:2::/64"),
        ("ipv6:%5B2001:db8:1:2::9%5D:443", "2001:db8:1:2::/64"),
        ("ipv6:[fe80::1%25eth0]:443", "fe80::/64"),
        ("unix:/run/socket", "unix"),
        ("", ""),
    ],
)
def test_the_address_of_a_caller(peer: str, address: str) -> None:
    assert caller_address(peer) == address


@given(
    st.one_of(
        st.text(), st.ip_addresses().map(str), st.text("[]:%.0123456789abcdefipv5B", max_size=30)
    )
)
def test_any_peer_has_an_address_that_stays_the_same(peer: str) -> None:
    assert caller_address(peer) == caller_address(peer)


@given(st.text(), st.text())
def test_any_header_is_answered_with_an_access_error(scheme: str, text: str) -> None:
    with pytest.raises(AccessError) as caught:
        guard(INFER).admit({"authorization": f"{scheme} {text}!"}, text, "infer", text)
    assert not caught.value.known
