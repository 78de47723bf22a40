"""What the built-in entities look like, and the checks that patterns cannot make.

Where a pattern has to choose, it takes too much rather than too little. None has capturing groups,
and all but the private key are bounded, so that little is held back while they may still match.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

Entity = Literal["email", "card", "phone", "iban", "ip", "api-key"]
ENTITIES: Final[tuple[Entity, ...]] = get_args(Entity)

_GAP: Final = r"[ \u00A0\u2009-]?"
"""What people write between groups of digits."""
_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HEX_GROUP: Final = "(?:[0-9A-Fa-f]{1,4})"
_BEFORE_IPV6: Final = "(?<![0-9A-Za-z])(?<![0-9A-Fa-f]:)"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"


def _first_apart(words: str) -> str:
    """Return alternatives for words whose first character has been matched already.

    A search is fast where a pattern begins with one set of characters, and slow where it begins
    with alternatives.
    """
    return "|".join(f"(?<={word[0]}){word[1:]}" for word in words.split())


# Lengths from the SWIFT IBAN registry.
_IBAN_COUNTRIES: Final[Mapping[int, str]] = MappingProxyType(
    {
        15: "NO",
        16: "BE",
        18: "DK FI FK FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }
)

_IBANS: Final = "|".join(
    f"(?i:{_first_apart(countries)})(?:{_GAP}[A-Za-z0-9]){{{length - 2}}}"
    for length, countries in _IBAN_COUNTRIES.items()
)
_KEY_PREFIXES: Final = f"[gxhndw](?:{_first_apart('gsk_ xai- hf_ npm_ dop_v1_ glpat- whsec_')})"
_PRIVATE_KEY: Final = r"(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"

PATTERNS: Final[Mapping[Entity, tuple[str, ...]]] = MappingProxyType(
    {
        "email": (r"[\w.%+-]{1,64}@(?:\w[\w-]{0,62}\.){1,8}(?:xn--[\w-]{2,59}|[^\W\d_]{2,63})",),
        "card": (
            # However it is grouped, and in the usual groups even when other digits follow. Cards
            # of people begin with 2 to 6; times in milliseconds begin with 1.
            rf"(?<![0-9])[2-6](?:{_GAP}[0-9]){{12,18}}(?![0-9])",
            rf"(?<![0-9])[2-6][0-9]{{3}}(?:{_GAP}[0-9]{{4}}){{3}}(?![0-9])",
            rf"(?<![0-9])3[0-9]{{3}}{_GAP}[0-9]{{6}}{_GAP}[0-9]{{4,5}}(?![0-9])",
        ),
        "phone": (
            r"(?<![\w+])\+[1-9](?:[ \u00A0().\/-]{0,3}[0-9]){6,14}(?![0-9])",
            r"(?<![\w+.])00[1-9](?:[ \u00A0().\/-]{0,3}[0-9]){7,14}(?![0-9])",
            r"(?<![\w+])\([2-9][0-9]{2}\) ?[0-9]{3}[ .-][0-9]{4}(?![0-9])",
            r"(?<![\w+])[2-9][0-9]{2}[ .-][0-9]{3}[ .-][0-9]{4}(?![0-9])",
            r"(?<![\w+.])\(0[1-9][0-9]{1,4}\)[ \/-](?:[ -]?[0-9]){5,9}(?![0-9])",
            r"(?<![\w+.])0[1-9][0-9]{1,4}[ \/-](?:[ -]?[0-9]){5,9}(?![0-9])",
        ),
        "iban": (
            rf"(?<![A-Za-z0-9])[A-Za-z](?=[A-Za-z]{_GAP}[0-9]{_GAP}[0-9])(?:{_IBANS})(?![A-Za-z0-9])",
        ),
        "ip": (
            rf"(?<![0-9])(?<![0-9]\.){_IPV4}(?![0-9]|\.[0-9])",
            rf"{_BEFORE_IPV6}(?:{_HEX_GROUP}?:){{2,7}}(?:{_IPV4}|{_HEX_GROUP})(?![0-9A-Za-z])",
            rf"{_BEFORE_IPV6}(?:{_HEX_GROUP}:){{1,6}}:(?![0-9A-Za-z:])",
        ),
        "api-key": (
            r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,512}",
            rf"(?<![A-Za-z0-9])(?:{_KEY_PREFIXES})[A-Za-z0-9_+/=-]{{20,255}}",
            r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
            r"(?<![A-Za-z0-9])(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,255}",
            r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
            r"(?<![A-Za-z0-9])(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,255}",
            r"(?<![A-Za-z0-9])(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,512})",
            r"(?<![A-Za-z0-9])(?:pypi-[A-Za-z0-9_-]{50,512}|SG\.[\w-]{16,64}\.[\w-]{16,64})",
            r"(?<![A-Za-z0-9])eyJ[\w-]{5,1000}\.eyJ[\w-]{5,2000}\.[\w-]{0,1000}",
            # A key that is cut off has no end; then all that follows the beginning goes.
            rf"-----BEGIN {_PRIVATE_KEY}(?:(?!-----END)[\s\S])*(?:-----END {_PRIVATE_KEY})?",
        ),
    }
)


_PHONE_DIGIT: Final = r"[ \u00A0().\/-]{0,3}[0-9]"
_PHONE_HEAD: Final = (
    r"(?<![\w+])[+(02-9](?:"
    rf"(?<=\+)[1-9](?:{_PHONE_DIGIT}){{6}}"
    r"|(?<=[2-9])[0-9]{2}[ .-][0-9]{3}[ .-]"
    r"|(?<=\()[2-9][0-9]{2}\) ?[0-9]{3}"
    r"|(?<=\()(?<!\.\()0[1-9][0-9]{1,4}\)[ \/-]"
    rf"|(?<=0)(?<!\.0)(?:0[1-9](?:{_PHONE_DIGIT}){{7}}|[1-9][0-9]{{1,4}}[ \/-]))"
)
_KEY_HEAD: Final = (
    r"(?<![A-Za-z0-9])(?:[sr]k_|sk-|p(?:k_|ypi-)|g(?:sk_|lpat-|h[pousr]_|ithub_pat_)"
    r"|x(?:ai-|ox[abeoprs]-|app-)|hf_|npm_|dop_v1_|whsec_|A(?:KIA|SIA|BIA|CCA|Iza)"
    r"|ya29\.|SG\.|eyJ)"
)

HEADS: Final[Mapping[Entity, tuple[str, ...]]] = MappingProxyType(
    {
        "email": (r"[\w.%+-]{1,64}@",),
        "card": (rf"(?<![0-9])[2-6](?:{_GAP}[0-9]){{12}}",),
        "phone": (_PHONE_HEAD,),
        "iban": (rf"(?<![A-Za-z0-9])[A-Za-z]{{2}}{_GAP}[0-9]{_GAP}[0-9]",),
        "ip": (
            rf"(?<![0-9])(?<![0-9]\.){_OCTET}\.{_OCTET}\.",
            rf"{_BEFORE_IPV6}(?:{_HEX_GROUP}?:){{2}}",
        ),
        "api-key": (_KEY_HEAD, "-----BEGIN "),
    }
)
"""How what the patterns match begins, so that most texts need no search for the whole patterns.

Whatever begins like a match of one of an entity's patterns begins like a match of a head, too, and
the other way round, until the head is complete.
"""

SIGNS: Final = r"[0-9@:_-]|eyJ|SG\.|A(?:KIA|SIA|BIA|CCA|Iza)"
"""Without one of these no head is complete."""

ENDS: Final[Mapping[Entity, str]] = MappingProxyType(
    {
        "email": r"[\w.%+-]{1,64}",
        "phone": r"(?<![\w+])[+(]",
        "iban": r"(?<![A-Za-z0-9])[A-Za-z](?:[A-Za-z][ \u00A0\u2009-]?)?",
    }
)
"""What may begin at the end of a text that has none of the signs.

The beginnings of the other entities are letters then, which may begin an address, too.
"""


def is_card(text: str) -> bool:
    """Check the last digit (Luhn, ISO/IEC 7812-1)."""
    digits = [int(digit) for digit in reversed(only_digits(text))]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def is_iban(text: str) -> bool:
    """Check the check digits (ISO 13616: modulo 97)."""
    written = alphanumeric(text)
    return int("".join(str(int(sign, 36)) for sign in written[4:] + written[:4])) % 97 == 1


def is_ip(text: str) -> bool:
    """Check an IPv6 address; ``::`` alone is rather an operator than an address."""
    if ":" not in text:
        return True
    try:
        return int(ipaddress.IPv6Address(text)) != 0
    except ValueError:
        return False


def is_phone(text: str) -> bool:
    """Check the number of digits (ITU-T E.164: at most 15)."""
    return len(only_digits(text).removeprefix("00")) <= 15  # noqa: PLR2004 - E.164


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {"card": is_card, "iban": is_iban, "ip": is_ip, "phone": is_phone}
)


def only_digits(text: str) -> str:
    """Return the ASCII digits of ``text``."""
    return "".join(sign for sign in text if sign in "0123456789")


def alphanumeric(text: str) -> str:
    """Return the ASCII letters and digits of ``text``, in capitals."""
    return "".join(sign for sign in text if sign.isascii() and sign.isalnum()).upper()


SHAPES: Final[Mapping[str, str]] = MappingProxyType(
    {"email": "@.", "card": "-", "phone": "+-().", "iban": "-", "ip": ".:"}
)
"""The signs that a mask leaves: they are the form of an entity and not its content."""

SAME: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"card": only_digits, "iban": alphanumeric, "phone": only_digits, "email": str.casefold}
)
"""How two spellings of one value are made the same before they are hashed."""
