"""A small transformer that learns to spell: the same training, operation by operation and compiled.

Text: the Zen of Python, which ships with Python. The model predicts each next character from the 16 before it.
"""

import codecs
import contextlib
import io
import time

import numpy as np

import tracegrad as tg
from tracegrad import nn

with contextlib.redirect_stdout(io.StringIO()):
    import this

TEXT = codecs.decode(this.s, "rot13")
LETTERS = sorted(set(TEXT))
CONTEXT, WIDTH = 16, 32


class Block(nn.Module):
    """Attention to earlier characters and a feed-forward layer, each with a residual connection."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("later", tg.tensor(np.triu(np.ones((CONTEXT, CONTEXT), bool), 1)))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=self.later, need_weights=False)[0]
        return x + self.feed(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS))

    def forward(self, numbers):
        x = self.letters(numbers) + self.places(np.arange(CONTEXT))
        return self.head(self.norm(self.blocks(x)))


def train(text, starts, compiled):
    """The losses of a training on the windows of the text that begin at `starts`, a row per step."""
    tg.manual_seed(0)
    model = Transformer()
    optimizer = tg.optim.AdamW(model.parameters(), lr=3e-3)

    def step(x, y):
        optimizer.zero_grad()
        scores = model(x)
        loss = nn.functional.cross_entropy(scores.reshape(-1, len(LETTERS)), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    run = tg.jit(step) if compiled else step
    losses, begin = [], None
    for row in starts:
        windows = text[row[:, None] + np.arange(CONTEXT + 1)]
        losses.append(run(tg.tensor(windows[:, :-1]), tg.tensor(windows[:, 1:])).item())
        begin = begin or time.perf_counter()  # the first step compiles
    each = (time.perf_counter() - begin) / max(len(starts) - 1, 1)
    how = "compiled" if compiled else "eager"
    print(f"{how:9} loss {losses[0]:.4f} -> {losses[-1]:.4f}, {each * 1e3:.2f} ms a step")
    return losses


def main(steps=200, size=8):
    text = np.array([LETTERS.index(letter) for letter in TEXT])
    starts = np.random.default_rng(0).integers(0, len(text) - CONTEXT - 1, (steps, size))
    eager = train(text, starts, compiled=False)
    compiled = train(text, starts, compiled=True)
    # Rounding grows from step to step, so the losses agree most closely at first.
    np.testing.assert_allclose(compiled[:50], eager[:50], rtol=1e-8)
    np.testing.assert_allclose(compiled, eager, rtol=1e-2, atol=1e-3)
    assert np.mean(compiled[-10:]) < 0.9 * np.mean(compiled[:10])


if __name__ == "__main__":
    main()
