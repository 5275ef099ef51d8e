"""What the loader model says about a load, as typed records. No decisions and no sentences for users here.

Paths are `str` as `os.fsdecode` gives them. Every problem record ends in the same three fields:

    error   the text dlerror() would return in the C locale if this were the first thing wrong, or None
    crash   None, or how the process ends instead: "sigbus", "abort" or "exit" (ld.so ends it with status 127)
    fatal   False when the loader carries on in spite of it
"""

from typing import NamedTuple, Optional, Tuple, Union

# --- one name, looked up -------------------------------------------------------------------------------------

# Stages of a search, in the loader's order (glibc elf/dl-load.c, _dl_map_new_object).
LOADED = "loaded"  # an object of the process answers to the name
PATH = "path"  # the name has a slash: opened as it is
RPATH = "rpath"  # DT_RPATH of the requester, of what loaded it, ..., of the executable
LIBRARY_PATH = "library-path"  # LD_LIBRARY_PATH as captured when the process started
RUNPATH = "runpath"  # DT_RUNPATH of the requester
CACHE = "cache"  # /etc/ld.so.cache
DEFAULT = "default"  # the system directories
TARGET = "target"  # `how` of the object that was asked for by a path
PRELOAD = "preload"  # `how` of an LD_PRELOAD object
START = "start"  # `how` of the executable itself

# Verdicts of a step.
FOUND = "found"
ALREADY_LOADED = "already-loaded"
NOT_LOADED = "not-loaded"
ABSENT = "absent"  # no such file in this directory
NO_DIRECTORY = "no-directory"  # the directory itself is not there
DANGLING_LINK = "dangling-link"  # a link whose target is gone; the loader sees an absent file
UNREADABLE = "unreadable"  # EACCES: skipped in a search
WRONG_CLASS = "wrong-class"  # 32-bit file: remembered and skipped
WRONG_MACHINE = "wrong-machine"  # another architecture: skipped as if absent
BAD_FILE = "bad-file"  # fatal at once, a good file further on is not reached
LIST_ENDED = "list-ended"  # another errno: the rest of this list is not tried
NO_ENTRY = "no-entry"  # the cache does not know the name
STALE_ENTRY = "stale-entry"  # the cache names a file that is gone
NOT_SET = "not-set"  # the tag or variable does not exist
EMPTY = "empty"  # it exists and names no directory
DROPPED = "dropped"  # an element whose token has no value, or is refused in secure mode
DISABLED = "disabled"  # the stage does not apply; `detail` says why
NOT_REACHED = "not-reached"  # found earlier


class Step(NamedTuple):
    """One place that the loader considered for a name, or a whole stage that it did not use.

    owner      path of the object whose tag this is (RPATH, RUNPATH); None otherwise
    element    the directory as written, before tokens; None for a whole stage
    candidate  the file that was tried; None when none was
    detail     the reason in a few words: strerror, "requester has DT_RUNPATH", "ELFCLASS32", "aarch64", ...
    """

    stage: str
    owner: Optional[str]
    element: Optional[str]
    candidate: Optional[str]
    verdict: str
    detail: str = ""


class Lookup(NamedTuple):
    """One name with every step in the loader's order. `path` is the file that was taken, None when none was.

    requester   path of the object whose DT_NEEDED (or dlopen call) this is
    how         stage that answered; "" when none did
    error       dlerror text when this lookup fails, else None
    """

    name: str
    requester: str
    steps: Tuple[Step, ...]
    path: Optional[str]
    how: str
    error: Optional[str] = None


class Object(NamedTuple):
    """One object of a load, in the loader's breadth-first order.

    name        the name by which it was first asked for
    path        the file, as the loader opened it
    how         one of the stages above: what answered the name
    needed_by   paths of the objects of this load that have it in DT_NEEDED, in order; () for the root
    scope       "global" when its symbols serve every later object, else "local"
    is_new      False when the process had it before this load
    """

    name: str
    path: str
    soname: Optional[str]
    how: str
    needed_by: Tuple[str, ...]
    scope: str
    is_new: bool


# --- everything that can be wrong -----------------------------------------------------------------------------


class MissingLibrary(NamedTuple):
    """No candidate for a name was usable. `lookup` has the places; `chain` goes from the root to the requester."""

    name: str
    requester: str
    chain: Tuple[str, ...]
    lookup: Lookup
    error: Optional[str]
    crash: Optional[str] = None
    fatal: bool = True


class BadFile(NamedTuple):
    """A candidate that ends the search or the load.

    reason  "too-short" "not-elf" "directory" "io" "cut-in-headers" "wrong-byte-order" "bad-header" "os-abi"
            "not-shared" "executable" "no-dynamic-section" "no-segments" "not-page-aligned" "nodlopen"; "damaged" when a
            table in it leads nowhere, "filter-cycle" when two files filter each other: both end the process
    shadows a usable file of the same name further along the search, or None
    """

    path: str
    name: str
    requester: str
    reason: str
    shadows: Optional[str]
    error: Optional[str]
    crash: Optional[str] = None
    fatal: bool = True


class SkippedCandidate(NamedTuple):
    """A file of the right name that the loader passed over. `reason` is a verdict; `found` is what it took instead."""

    path: str
    name: str
    requester: str
    reason: str
    detail: str
    found: Optional[str]
    error: Optional[str] = None
    crash: Optional[str] = None
    fatal: bool = False


class TruncatedFile(NamedTuple):
    """A loadable segment reaches past the end of the file: touching it ends the process with SIGBUS, without a text."""

    path: str
    needed_size: int
    size: int
    error: Optional[str] = None
    crash: Optional[str] = "sigbus"
    fatal: bool = True


class VersionNotFound(NamedTuple):
    """`provider` has a version table, and `version`, which `requester` asks of it, is not in there."""

    provider: str
    version: str
    requester: str
    error: Optional[str]
    crash: Optional[str] = None
    fatal: bool = True


class OrphanVersion(NamedTuple):
    """`requester` asks a version of `file`, and no loaded object has that name (damage done by patchelf)."""

    requester: str
    file: str
    error: Optional[str] = None
    crash: Optional[str] = "exit"
    fatal: bool = True


class Provider(NamedTuple):
    """An object that defines a symbol without serving it.

    why  "local-scope" (loaded, but RTLD_LOCAL under another root), "other-version", "hidden", "not-loaded"
    """

    path: str
    why: str
    version: Optional[str]


class Undefined(NamedTuple):
    """One undefined symbol; `version` is None for an unversioned reference. `providers` define it unserved."""

    symbol: str
    version: Optional[str]
    providers: Tuple[Provider, ...]


class UndefinedSymbols(NamedTuple):
    """All symbols of `requester` that nothing in its scope defines, in the order the loader relocates them."""

    requester: str
    symbols: Tuple[Undefined, ...]
    error: Optional[str]
    crash: Optional[str] = None
    fatal: bool = True


class UnversionedProvider(NamedTuple):
    """`provider` lost its version table while `requester` asks `version` of it by name: glibc <= 2.40 aborts."""

    provider: str
    requester: str
    symbol: str
    version: str
    error: Optional[str] = None
    crash: Optional[str] = "exit"
    fatal: bool = True


class Refused(NamedTuple):
    """A precondition of the load that does not hold on this host.

    reason  "executable-stack" "static-tls" "isa-level" "relr" "noexec-mount" "address-space" "text-relocations"
    detail  what is needed and what there is, in a few words
    """

    path: str
    reason: str
    detail: str
    error: Optional[str]
    crash: Optional[str] = None
    fatal: bool = True


class ForeignLibc(NamedTuple):
    """The object was linked against another C library (musl); what the loader says about it hides that."""

    path: str
    libc: str
    evidence: str
    error: Optional[str] = None
    crash: Optional[str] = None
    fatal: bool = False


Problem = Union[
    MissingLibrary,
    BadFile,
    SkippedCandidate,
    TruncatedFile,
    VersionNotFound,
    OrphanVersion,
    UndefinedSymbols,
    UnversionedProvider,
    Refused,
    ForeignLibc,
]
