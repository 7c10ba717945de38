"""What the API takes and gives, as its OpenAPI document says it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from setpredict.web.limits import LARGEST_NUMBER, MOST_STEPS

Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER, allow_inf_nan=False, strict=True)]
Element = Annotated[list[Number], Field(min_length=1, max_length=64)]


class DecodeRequest(BaseModel):
    """Exactly one of points, vector, image, sample and latent; which of them a model takes is in /api/models."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"points": [[0.2, 0.4]], "steps": 20}]})

    points: Annotated[list[Element], Field(max_length=2048)] | None = Field(
        None, description="A set, for models whose input is one: a list of elements."
    )
    vector: Annotated[list[Number], Field(min_length=1, max_length=4096)] | None = Field(
        None, description="A vector, for models whose input is one."
    )
    image: Annotated[str, Field(min_length=1, max_length=900_000)] | None = Field(
        None, description="A PNG or JPEG in base64, for models whose input is an image. It is squashed to a square."
    )
    sample: Annotated[int, Field(ge=0, le=10_000_000, strict=True)] | None = Field(
        None, description="The number of a sample of the model's own data; the answer then has the target too."
    )
    latent: Annotated[list[Number], Field(min_length=1, max_length=4096)] | None = Field(
        None, description="The vector z itself, to decode without encoding anything."
    )
    steps: Annotated[int, Field(ge=0, le=MOST_STEPS, strict=True)] | None = Field(
        None, description="Inner steps (none: as trained). One-shot decoders have one answer whatever it is."
    )


class ModelInfo(BaseModel):
    """A model that can be asked."""

    name: str
    tab: str
    method: str
    task: str
    kind: str
    input_kind: str
    input_size: int
    max_size: int
    features: int
    feature_names: list[str]
    latent: int
    trained_steps: int
    samples: int
    parameters: int
    scores: dict[str, str]
    date: str
    note: str


class ObjectCell(BaseModel):
    text: str
    wrong: bool


class JudgedElement(BaseModel):
    """A predicted element beside the true one it stands for."""

    element: int
    target: int | None
    right: bool
    score: float
    cells: list[ObjectCell]


class DecodeAnswer(BaseModel):
    """Every set on the way from Y0 to YT."""

    model: str
    steps: int
    trained_steps: int
    elements: list[list[list[float]]] = Field(description="(T+1, N, D): the elements of every step.")
    mask: list[list[float]] = Field(description="(T+1, N): how sure the model is of each element, 0 to 1.")
    places: list[list[list[float]]] | None = Field(description="Where objects are on the image, 0 to 1, if they are.")
    repr_loss: list[float] | None = Field(description="(T+1): the representation loss; null for one-shot decoders.")
    words: list[list[list[str]]] | None = Field(description="Objects of every step in words.")
    judged: list[list[JudgedElement]] | None = Field(description="With a sample: what is right at every step.")
    columns: list[str]
    input: Any = Field(description="With a sample: what went in (a PNG as a data URL, or numbers).")
    target: dict[str, Any] | None
    latent: list[float]
    milliseconds: float
    together: int = Field(description="How many requests were decoded at once.")


class Problem(BaseModel):
    detail: str
