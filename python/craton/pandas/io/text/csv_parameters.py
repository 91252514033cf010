"""The parameters of ``read_csv``: which of them a plan follows, and what they mean for the scan of the text.

A parameter, or a value of it, that the kernel cannot follow exactly is refused here, so that pandas reads the file.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Hashable, Mapping, Sequence
from inspect import signature
from typing import Any

import pandas as pd
from pandas.api.types import is_integer, is_list_like
from pandas.io.parsers.readers import _clean_na_values

from craton.errors import Unsupported
from craton.pandas.core.dtypes import DtypeObj
from craton.pandas.io.text.csv_inference import Notation
from craton.pandas.io.text.csv_text import BYTE_ORDER_MARK, compression_of, open_text, text_blocks
from craton.records import dataclass
from craton.refusals import Refusal

_NO_DEFAULT = pd.api.extensions.no_default
_PLANNED = {
    "sep", "delimiter", "header", "names", "index_col", "usecols", "dtype", "skiprows", "na_values", "keep_default_na",
    "na_filter", "parse_dates", "date_format", "low_memory", "storage_options", "comment", "thousands", "decimal",
    "true_values", "false_values", "encoding", "quotechar", "quoting", "compression", "dtype_backend",
}  # fmt: skip
#: Parameters that are accepted only with these values, which do not change the plan.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "engine": (None, "c"),
    "skip_blank_lines": (True,),
    "memory_map": (True, False),
    "cache_dates": (True, False),
    "doublequote": (True,),
    # Without bad lines, and without bytes that are not UTF-8, these change nothing. The kernel reads no file with either.
    "on_bad_lines": ("error", "warn", "skip"),
    "encoding_errors": ("strict", "ignore", "replace", "backslashreplace"),
    "skipinitialspace": (False,),
    "skipfooter": (0,),
    "iterator": (False,),
}
_NONE_BY_DEFAULT = {name for name, parameter in signature(pd.read_csv).parameters.items() if parameter.default is None}
#: Encodings, by the names of Python's codecs, in which ASCII text has the same bytes.
_ASCII_COMPATIBLE = {"ascii", "iso8859-1", "iso8859-2", "iso8859-15", "cp1250", "cp1251", "cp1252"}
_HEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the bytes of a file are divided into fields.

    Parameters
    ----------
    separator
        The character between fields.
    quote
        The character that encloses fields; None if none does.
    comment
        The character with which lines of comments begin, which may only be the first lines of the file; None if there are none.
    ascii_only
        Whether the file must consist of ASCII characters, because its encoding is not UTF-8.
    """

    separator: str
    quote: str | None
    comment: str | None
    ascii_only: bool


def refuse_unplanned(given: Mapping[str, Any]) -> None:
    """Refuse parameters that a plan does not follow.

    Raises
    ------
    Unsupported
        If there are any.
    """
    unplanned = [name for name, value in given.items() if name not in _PLANNED and not _is_neutral(name, value, given)]
    unplanned += [
        name
        for name, value in given.items()
        if name in _PLANNED and value is None and name not in ("header", "compression") and name not in _NONE_BY_DEFAULT
    ]
    if unplanned:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(unplanned)))


def _is_neutral(name: str, value: Any, given: Mapping[str, Any]) -> bool:
    """Whether a parameter's value does not change the plan. ``None`` is such a value only if it is pandas' default."""
    if value is None and name in _NONE_BY_DEFAULT:
        return True
    if not isinstance(value, (str, int, bool, type(None))):
        return False
    if name == "dayfirst":  # matters for dates only
        return value is False or (value is True and not given.get("parse_dates") and given.get("date_format") is None)
    return any(value is one or value == one for one in _NEUTRAL.get(name, ()))


def dialect_of(given: Mapping[str, Any], default: str) -> Dialect:
    """The dialect that the parameters give, with the reader's default separator.

    Raises
    ------
    Unsupported
        If the kernel does not support it.
    """
    separator = _separator(given, default)
    quoting, quote = given.get("quoting", 0), given.get("quotechar", '"')
    if quoting == csv.QUOTE_NONE and is_integer(quoting):
        quote = None
    elif not is_integer(quoting) or quoting not in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        raise Unsupported(Refusal.PARAMETER, "quoting")
    elif not _is_character(quote) or quote == separator:
        raise Unsupported(Refusal.PARAMETER, "quotechar")
    comment = given.get("comment")
    if comment is not None and (not _is_character(comment) or comment in (separator, quote)):
        raise Unsupported(Refusal.PARAMETER, "comment")
    return Dialect(separator, quote, comment, _is_ascii_only(given.get("encoding")))


def _separator(given: Mapping[str, Any], default: str) -> str:
    delimiter = given.get("delimiter")
    if delimiter is not None and "sep" in given:  # pandas raises an error
        raise Unsupported(Refusal.PARAMETERS, "sep and delimiter")
    separator = given.get("sep", default) if delimiter is None else delimiter
    if not _is_character(separator) or separator in '"\r\n \\':
        raise Unsupported(Refusal.CSV_SEPARATOR, repr(separator))
    return str(separator)


def _is_character(value: Any) -> bool:
    """Whether a value is one ASCII character that ends no line and is no blank."""
    return isinstance(value, str) and len(value) == 1 and ord(value) < 128 and value not in "\r\n \0\\"


def _is_ascii_only(encoding: Any) -> bool:
    if encoding is None:
        return False
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, TypeError) as error:
        raise Unsupported(Refusal.PARAMETER, "encoding") from error
    if name in ("utf-8", "utf-8-sig"):
        return False
    if name not in _ASCII_COMPATIBLE:
        raise Unsupported(Refusal.PARAMETER, "encoding")
    return True


def notation_of(given: Mapping[str, Any], dialect: Dialect) -> Notation:
    """How numbers and booleans are written.

    Raises
    ------
    Unsupported
        If pandas raises an error, or its rules for the characters are not known here.
    """
    decimal, thousands = given.get("decimal", "."), given.get("thousands")
    if decimal not in (".", ",") or thousands not in (None, ",", ".", "_", "'") or decimal == thousands:
        raise Unsupported(Refusal.PARAMETERS, "decimal and thousands")
    if dialect.separator in (decimal, thousands) and dialect.quote is None:
        raise Unsupported(Refusal.PARAMETERS, "decimal and thousands")
    texts = []
    for name in ("true_values", "false_values"):
        found = given.get(name)
        if found is not None and not (isinstance(found, (list, tuple, set)) and all(type(one) is str for one in found)):
            raise Unsupported(Refusal.PARAMETER, name)
        texts.append(tuple(sorted(found or ())))
    if set(texts[0]) & set(texts[1]):
        raise Unsupported(Refusal.PARAMETERS, "true_values and false_values")
    return Notation(decimal, thousands, *texts)


@dataclass(frozen=True, slots=True)
class Missing:
    """The texts that are read as missing values.

    Parameters
    ----------
    texts
        Of all fields.
    more
        Of single fields, by label, those beyond ``texts``.
    numbers
        The numbers among them: pandas compares them with the numbers of a numeric column, however these are written.
    """

    texts: frozenset[str]
    more: Mapping[Hashable, frozenset[str]]
    numbers: frozenset[float]


def missing_of(given: Mapping[str, Any]) -> Missing:
    """What the parameters say about missing values.

    Raises
    ------
    Unsupported
        If single columns have missing values of their own that are numbers, or none of the common ones.
    """
    values, default = given.get("na_values"), bool(given.get("keep_default_na", True))
    if not given.get("na_filter", True):
        return Missing(frozenset(), {}, frozenset())
    if isinstance(values, Mapping):
        if type(values) is not dict or not default:
            raise Unsupported(Refusal.CSV_MISSING_BY_COLUMN)
        texts, numbers = _clean_na_values(values)
        common = frozenset(_clean_na_values(None)[0])
        if any(numbers[label] for label in numbers):
            raise Unsupported(Refusal.CSV_MISSING_NUMBERS)
        return Missing(common, {label: _texts(found) - common for label, found in texts.items()}, frozenset())
    if values is not None and is_list_like(values) and not isinstance(values, (list, tuple, set, frozenset)):
        raise Unsupported(Refusal.PARAMETER, "na_values")
    texts, numbers = _clean_na_values(values, default)
    return Missing(_texts(texts), {}, frozenset(numbers))


def _texts(values: Any) -> frozenset[str]:
    return frozenset(value for value in values if isinstance(value, str))


def lines_before_rows(path: str, given: Mapping[str, Any], dialect: Dialect) -> int:
    """The number of lines before the first row: skipped lines, comments, and the header.

    Raises
    ------
    Unsupported
        If other lines are skipped as well, or lines before the first row are blank or have unclosed quotes.
    """
    skipped, header = given.get("skiprows") or 0, given.get("header", "infer")
    if isinstance(header, str) and header == "infer":
        header = 0 if given.get("names") is None else None
    if not (header is None or (is_integer(header) and header >= 0)):
        raise Unsupported(Refusal.PARAMETER, "header")
    chosen = _skipped_lines(skipped)
    wanted = 0 if header is None else int(header) + 1
    head = next(text_blocks(path, _HEAD), b"")
    lines = head.split(b"\n")
    mark = None if dialect.comment is None else dialect.comment.encode()
    count = 0
    while count < len(lines):
        is_comment = mark is not None and lines[count].startswith(mark)
        if is_comment and chosen:  # whether comments count as lines that are skipped is not worth knowing
            raise Unsupported(Refusal.PARAMETERS, "comment and skiprows")
        if count not in chosen and not is_comment:
            if not wanted:
                break
            wanted -= 1
        count += 1
    first, rest = lines[:count], b"\n".join(lines[count:])
    if rest.startswith(BYTE_ORDER_MARK):  # the kernel would skip it
        raise Unsupported(Refusal.CSV_BYTE_ORDER_MARK)
    quote = (dialect.quote or '"').encode()
    odd = any(not line.strip() or (line.count(quote) % 2 and dialect.quote is not None) for line in first)
    if wanted or count >= len(lines) or odd:
        raise Unsupported(Refusal.CSV_HEADER)
    if chosen and max(chosen) >= count:
        raise Unsupported(Refusal.CSV_SKIPPED_LINES)
    return count


def _skipped_lines(skipped: Any) -> range | frozenset[int]:
    if is_integer(skipped) and skipped >= 0:
        return range(int(skipped))
    if isinstance(skipped, (list, tuple, set, frozenset, range)) and all(is_integer(one) for one in skipped):
        if any(one < 0 for one in skipped):
            raise Unsupported(Refusal.PARAMETER, "skiprows")
        return frozenset(map(int, skipped))
    raise Unsupported(Refusal.PARAMETER, "skiprows")


def check_compression(path: str, given: Mapping[str, Any]) -> None:
    """Refuse another compression than that of the file's name.

    Raises
    ------
    Unsupported
        If pandas reads the file with another compression, or the kernel does not support it.
    """
    named = compression_of(path)
    compression = given.get("compression", "infer")
    if isinstance(compression, dict) and len(compression) == 1:
        compression = compression.get("method")
    if compression not in ("infer", named):
        raise Unsupported(Refusal.PARAMETER, "compression")


def check_start(path: str, dialect: Dialect) -> None:
    """Refuse a byte order mark in an encoding that is not UTF-8, where it is text.

    Raises
    ------
    Unsupported
        If there is one.
    """
    if dialect.ascii_only:
        with open_text(path) as file:
            if file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK:
                raise Unsupported(Refusal.CSV_NOT_ASCII)


def fields_of(
    labels: pd.Index, sample: pd.DataFrame, given: Mapping[str, Any]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The field numbers of the sample's columns, and of its index levels.

    Raises
    ------
    Unsupported
        If the labels do not identify the fields.
    """
    if not labels.is_unique or not sample.columns.is_unique or isinstance(sample.columns, pd.MultiIndex):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    fields = labels.get_indexer(sample.columns)
    if (fields < 0).any():
        raise Unsupported(Refusal.CSV_UNNAMED_COLUMNS)
    argument = given.get("index_col")
    if argument is None or argument is False:
        if not isinstance(sample.index, pd.RangeIndex):
            raise Unsupported(Refusal.CSV_UNNAMED_INDEX)
        return tuple(map(int, fields)), ()
    keys = list(argument) if isinstance(argument, (list, tuple)) else [argument]
    if given.get("usecols") is not None and not all(isinstance(key, str) for key in keys):
        keys = list(sample.index.names)  # the numbers are those of the columns that are used
        if len(set(keys)) != len(keys) or any(not isinstance(key, str) for key in keys):
            raise Unsupported(Refusal.CSV_NUMBERED_INDEX)
    levels = []
    for key in keys:
        if isinstance(key, str) and key in labels:
            levels.append(int(labels.get_loc(key)))
        elif isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(labels):
            levels.append(key)
        else:
            raise Unsupported(Refusal.PARAMETER, "index_col")
    if len(levels) != sample.index.nlevels or set(levels) & set(fields):
        raise Unsupported(Refusal.PARAMETER, "index_col")
    return tuple(map(int, fields)), tuple(levels)


def date_fields(
    given: Mapping[str, Any], labels: pd.Index, fields: Sequence[int], levels: Sequence[int]
) -> dict[int, str | None]:
    """The fields that are parsed as dates, with their formats; None for a format that pandas guesses.

    Raises
    ------
    Unsupported
        If the parameters are not of that kind.
    """
    argument, formats = given.get("parse_dates"), given.get("date_format")
    if argument is None and formats is not None:
        argument = True  # as in pandas
    if argument is None or argument is False:
        return {}
    if argument is True:
        found = {level: labels[level] for level in levels}
    elif isinstance(argument, (list, tuple)):
        found = {}
        for key in argument:
            if isinstance(key, str) and key in labels:
                found[int(labels.get_loc(key))] = key
            elif is_integer(key) and given.get("usecols") is None and 0 <= key < len(labels):
                number = int(labels.get_loc(key)) if key in labels else int(key)
                found[number] = labels[number]
            else:
                raise Unsupported(Refusal.PARAMETER, "parse_dates")
    else:
        raise Unsupported(Refusal.PARAMETER, "parse_dates")
    if not found.keys() <= {*fields, *levels}:
        raise Unsupported(Refusal.CSV_DATE_UNREAD)
    if formats is not None and not isinstance(formats, (str, dict)):
        raise Unsupported(Refusal.PARAMETER, "date_format")
    return {
        field: formats.get(label) if isinstance(formats, dict) else formats for field, label in sorted(found.items())
    }


def requested_dtypes(argument: Any, labels: pd.Index, fields: tuple[int, ...]) -> dict[int, DtypeObj]:
    """The dtypes that the user specified, by field.

    Raises
    ------
    Unsupported
        If pandas raises an error, or a label may stand for several columns.
    """
    if argument is None:
        return {}
    if not isinstance(argument, dict):
        try:
            every: DtypeObj = pd.api.types.pandas_dtype(argument)
        except TypeError as error:
            raise Unsupported(Refusal.DTYPE_UNKNOWN) from error
        return {field: every for field in fields}  # noqa: C420 - mypy finds no key type in fromkeys
    if type(argument) is not dict:
        raise Unsupported(Refusal.CSV_DTYPE_DEFAULT)
    if any(_base_label(label) in argument and label not in argument for label in labels):
        raise Unsupported(Refusal.CSV_DTYPE_REPEATED)
    found: dict[int, DtypeObj] = {}
    for label, dtype in argument.items():
        if not isinstance(label, Hashable) or label not in labels:
            raise Unsupported(Refusal.CSV_DTYPE_COLUMN)
        try:
            found[int(labels.get_loc(label))] = pd.api.types.pandas_dtype(dtype)
        except TypeError as error:
            raise Unsupported(Refusal.DTYPE_UNKNOWN) from error
    return {field: dtype for field, dtype in found.items() if field in fields}


def _base_label(label: Any) -> str | None:
    """The label ``a`` if the label is ``a.1``, which pandas may have given to the second of two columns ``a``; otherwise None."""
    base, point, number = str(label).rpartition(".")
    return base if point and number.isdecimal() else None


#: A pattern of the texts of each directive of a date format that the kernel and pandas parse alike.
_DIRECTIVES = {"Y": r"[12]\d{3}", "m": r"\d{2}", "d": r"\d{2}", "H": r"\d{2}", "M": r"\d{2}", "S": r"[0-5]\d"}


def pattern_of_format(form: str) -> str:
    """A pattern of the dates in a format that the kernel parses as pandas does.

    Raises
    ------
    Unsupported
        If the format has other directives, repeats one, or lacks a part of the date.
    """
    parts = re.split(r"%(.)", form)
    found = parts[1::2]
    if not {"Y", "m", "d"} <= set(found) or len(set(found)) != len(found) or not set(found) <= _DIRECTIVES.keys():
        raise Unsupported(Refusal.DATES_FORMAT)
    if ("H" in found) != ("M" in found) or ("S" in found and "M" not in found):
        raise Unsupported(Refusal.DATES_FORMAT)
    if any(not re.fullmatch(r"[-/.:, T]*", literal) for literal in parts[::2]):
        raise Unsupported(Refusal.DATES_FORMAT)
    return "".join(_DIRECTIVES[part] if i % 2 else re.escape(part) for i, part in enumerate(parts))
