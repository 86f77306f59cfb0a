"""The user that a certificate names; the expected values are those of RabbitMQ 3.10's rabbit_cert_info."""

from typing import get_args

import pytest

from amqproxy.configuration.tls_config import CertificateLogin
from amqproxy.sockets.certificate import NAMINGS, common_name, common_name_in, distinguished_name

Subject = tuple[tuple[tuple[str, str], ...], ...]


def one_each(*names: tuple[str, str]) -> Subject:
    return tuple((name,) for name in names)


CN, ORGANIZATION, COUNTRY = "commonName", "organizationName", "countryName"


@pytest.mark.parametrize(
    ("subject", "whole", "common"),
    [
        (one_each((ORGANIZATION, "acme"), (CN, "orders")), "CN=orders,O=acme", "orders"),
        (
            one_each((COUNTRY, "DE"), (ORGANIZATION, 'a,b "q" <x>; y+z\\ '), (CN, "# lead")),
            'CN=\\# lead,O=a\\,b \\"q\\" \\<x\\>\\; y\\+z\\\\\\ ,C=DE',
            "# lead",
        ),
        (one_each((CN, " sp ")), "CN=\\ sp\\ ", " sp "),
        (one_each((CN, " ")), "CN=\\ ", " "),
        (one_each((CN, "x  ")), "CN=x \\ ", "x  "),
        (one_each((CN, "änn~€")), "CN=\\C3\\A4nn\\7E\\E2\\82\\AC", "änn~€"),
        (
            (((CN, "a"), ("userId", "u")), (("emailAddress", "a@b.c"),), (("domainComponent", "dc"),)),
            "DC=dc,EMAILADDRESS=a@b.c,CN=a+UID=u",
            "a",
        ),
        (one_each((CN, "one"), (CN, "two")), "CN=two,CN=one", "one,two"),
        (
            one_each(("serialNumber", "5"), ("streetAddress", "s"), ("title", "t"), ("surname", "sn")),
            "SN=sn,TITLE=t,2.5.4.9=s,SERIALNUMBER=5",
            None,
        ),
        (
            one_each(("dnQualifier", "q"), ("businessCategory", "b"), ("postalCode", "12"), ("1.2.3.4", "z")),
            "1.2.3.4=z,2.5.4.17=12,2.5.4.15=b,2.5.4.46=q",
            None,
        ),
        ((), None, None),
    ],
)
def test_names(subject: Subject, whole: str | None, common: str | None) -> None:
    assert distinguished_name({"subject": subject}) == whole
    assert common_name({"subject": subject}) == common


def test_a_certificate_without_a_subject() -> None:
    assert distinguished_name({}) is common_name({}) is None


@pytest.mark.parametrize("name", ["orders", "# lead", " sp ", "x  ", "änn~€", "a,O=acme", "a+b\\c", ""])
def test_a_common_name_can_be_read_from_a_subject_that_has_nothing_else(name: str) -> None:
    subject = distinguished_name({"subject": one_each((CN, name))})
    assert subject is not None
    assert common_name_in(subject) == name


@pytest.mark.parametrize("subject", ["", "CN=orders,O=acme", "O=acme", "CN=a+UID=b"])
def test_other_subjects_have_no_single_common_name(subject: str) -> None:
    assert common_name_in(subject) == ""


NAMES = (
    ("DNS", "sensor-7.example"),
    ("DNS", "second.example"),
    ("URI", "spiffe://acme/sensor-7"),
    ("email", "sensor-7@example.com"),
    ("IP Address", "10.0.0.7"),
)


@pytest.mark.parametrize(
    ("naming", "user"),
    [
        ("dns", "sensor-7.example"),
        ("uri", "spiffe://acme/sensor-7"),
        ("email", "sensor-7@example.com"),
        ("ip", "10.0.0.7"),
    ],
)
def test_the_first_alternative_name_of_a_kind(naming: str, user: str) -> None:
    assert NAMINGS[naming]({"subject": one_each((CN, "sensor")), "subjectAltName": NAMES}) == user
    others = tuple(each for each in NAMES if each[1] not in (user, "second.example"))
    assert NAMINGS[naming]({"subject": one_each((CN, "sensor")), "subjectAltName": others}) is None
    assert NAMINGS[naming]({}) is None


def test_each_part_of_the_configuration_is_known() -> None:
    assert set(NAMINGS) == set(get_args(CertificateLogin))
