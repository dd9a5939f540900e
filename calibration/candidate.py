"""What a router may see of a cached answer and a new request: five texts, and nothing about the right decision."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A cached answer proposed for a new request (paper section 3.2, ``x = (q_c, r_c, c_c, q_n, c_n)``).

    Label, change family, cluster and source are not part of it: what routes on it cannot read them.

    Attributes:
        q_cache: the cached request.
        r_cache: the cached response.
        context_cache: the context the response was given in; "" for none.
        q_probe: the new request.
        context_probe: the new request's context; "" for none.
    """

    q_cache: str
    r_cache: str
    context_cache: str
    q_probe: str
    context_probe: str

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str):
                raise TypeError(f"{field.name} is a {type(value).__name__}; give a string")
