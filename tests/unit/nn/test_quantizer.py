"""Codes to vectors and back."""

import pytest
import torch

from rhapsode.nn.quantizer import Codebook, rvq_decode, rvq_encode, stack

BOOKS, CODES, DIM = 3, 8, 4


def tables() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(BOOKS, CODES, DIM, dtype=torch.float64)


def test_a_codebooks_vectors_are_sums_over_usage_and_unused_codes_stay_finite():
    book = Codebook(2, 3)
    book.embedding_sum.copy_(torch.tensor([[2.0, 4.0, 6.0], [0.0, 0.0, 0.0]]))
    book.cluster_usage.copy_(torch.tensor([2.0, 0.0]))
    assert stack([book]).tolist() == [[[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]]
    assert set(book.state_dict()) == {"cluster_usage", "embedding_sum"}


def test_the_name_of_the_sums_is_the_checkpoints():
    assert "embed_sum" in Codebook(2, 3, "embed_sum").state_dict()


def test_decoding_adds_up_the_books_vectors():
    books = tables()
    codes = torch.tensor([[[1, 7, 0], [3, 3, 3]]])
    expected = torch.stack([books[0, 1] + books[1, 7] + books[2, 0], books[:, 3].sum(0)])[None]
    torch.testing.assert_close(rvq_decode(codes, books), expected)


def test_a_code_past_the_end_of_its_book_is_an_error_though_other_books_follow():
    with pytest.raises(IndexError):
        rvq_decode(torch.tensor([[CODES, 0, 0]]), tables())


def test_encoding_takes_the_nearest_code_to_what_is_left():
    books, vectors = tables(), torch.randn(20, DIM, dtype=torch.float64)
    codes = rvq_encode(vectors, books)
    for vector, row in zip(vectors, codes, strict=True):
        residual = vector
        for book, code in zip(books, row, strict=True):
            assert code == (residual - book).norm(dim=-1).argmin()
            residual = residual - book[code]


def test_encoding_undoes_decoding_where_each_book_is_much_finer_than_the_one_before():
    books = tables() * torch.tensor([100.0, 1.0, 0.01])[:, None, None]
    codes = torch.randint(0, CODES, (30, BOOKS))
    assert torch.equal(rvq_encode(rvq_decode(codes, books), books), codes)
