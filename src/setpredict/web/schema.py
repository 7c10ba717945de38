"""Requests and responses of the API, as in its OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from setpredict.web.limits import LARGEST_GIVEN, LARGEST_NUMBER, MAX_STEPS

Number = Annotated[float, Field(ge=-LARGEST_GIVEN, le=LARGEST_GIVEN, allow_inf_nan=False, strict=True)]
Entry = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER, allow_inf_nan=False, strict=True)]
Element = Annotated[list[Number], Field(min_length=1, max_length=64, fail_fast=True)]
"""`fail_fast`: the first mistake in a list is enough; a hostile list would cost an error for each of its items."""


class DecodeRequest(BaseModel):
    """Exactly one of points, vector, image, sample and latent; /api/models says which of them a model accepts."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"points": [[0.2, 0.4]], "steps": 20}]})

    points: Annotated[list[Element], Field(max_length=2048, fail_fast=True)] | None = Field(
        None, description="A list of elements, for models whose input is a set."
    )
    vector: Annotated[list[Number], Field(min_length=1, max_length=4096, fail_fast=True)] | None = Field(
        None, description="A list of numbers, for models whose input is a vector."
    )
    image: Annotated[str, Field(min_length=1, max_length=900_000)] | None = Field(
        None,
        description="A PNG, JPEG or WebP in base64, for models whose input is an image; it is resized to a square.",
    )
    sample: Annotated[int, Field(ge=0, le=10_000_000, strict=True)] | None = Field(
        None, description="The index of a sample of the model's own data; the response then includes the target."
    )
    latent: Annotated[list[Entry], Field(min_length=1, max_length=4096, fail_fast=True)] | None = Field(
        None, description="The vector z itself, to decode without encoding an input."
    )
    steps: Annotated[int, Field(ge=0, le=MAX_STEPS, strict=True)] | None = Field(
        None, description="The number of inner steps (null: as trained). One-shot decoders ignore it."
    )

    @model_validator(mode="before")
    @classmethod
    def first_unknown(cls, values: Any) -> Any:
        """The first unknown field is enough, as in lists."""
        for name in values if isinstance(values, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(f"there is no field {name[:100]!r}; the fields are {', '.join(cls.model_fields)}")
        return values


class ModelInfo(BaseModel):
    """A model that the server offers."""

    name: str
    tab: str
    method: str
    task: str
    kind: str
    input_kind: str
    input_size: int
    max_size: int
    features: int
    coordinates: int = Field(description="How many of the features, the first ones, are numbers and not categories.")
    feature_names: list[str]
    latent: int = Field(description="The length of z that can be sent as latent; 0: this model takes none.")
    trained_steps: int
    max_steps: int | None = Field(description="The largest number of steps; null: any.")
    aspect: float = Field(description="Width divided by height of the images that the model's squares come from.")
    samples: int
    first_sample: int = Field(description="A sample to begin with.")
    parameters: int
    scores: dict[str, str]
    date: str
    note: str


class ObjectCell(BaseModel):
    """One attribute of an object as text, and whether it is wrong."""

    text: str
    wrong: bool


class MatchedElement(BaseModel):
    """A predicted element and the true element that it is matched with."""

    element: int
    target: int | None
    right: bool
    score: float
    cells: list[ObjectCell]


class DecodeAnswer(BaseModel):
    """Every set from Y0 to YT."""

    model: str
    steps: int
    trained_steps: int
    elements: list[list[list[float]]] = Field(description="(T+1, N, D): the elements of every step.")
    mask: list[list[float]] = Field(description="(T+1, N): the model's confidence in each element, 0 to 1.")
    positions: list[list[list[float]]] | None = Field(
        description="(T+1, N, 2): for objects of scenes, their positions on the image, 0 to 1; null for other data."
    )
    repr_loss: list[float] | None = Field(description="(T+1): the representation loss; null for one-shot decoders.")
    text: list[list[list[str]]] | None = Field(
        description="The elements of every step as text, in the data's units; null for points and plain boxes."
    )
    matches: list[list[MatchedElement]] | None = Field(description="With a sample: what is right at every step.")
    columns: list[str]
    input: Any = Field(
        description="The input as the model sees it: numbers, or for a sample with an image a PNG as a data URL; null "
        "for other images and for latent."
    )
    picture: str | None = Field(
        description="With a sample: a larger view of its scene, as a data URL; null for other data."
    )
    target: dict[str, Any] | None
    latent: list[float]
    milliseconds: float
    batch_size: int = Field(description="The number of requests that were decoded in one batch.")


class Problem(BaseModel):
    """The reason for an error response."""

    detail: str
