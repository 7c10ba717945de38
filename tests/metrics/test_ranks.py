"""Two processes with different numbers of images compute the same metrics as one process, to the last bit."""

import torch
import torch.multiprocessing as mp
from ranks import all_metrics, make_data, rank_main


def test_two_ranks_equal_one(tmp_path):
    mp.spawn(rank_main, args=(2, str(tmp_path)), nprocs=2)
    data = make_data()
    alone = all_metrics(data, [torch.arange(len(data[0]))])
    for rank in range(2):
        uneven, idle = torch.load(tmp_path / f"{rank}.pt")
        assert uneven == alone, f"rank {rank}, 5 and 36 images"
        assert idle == alone, f"rank {rank}, 0 and 41 images"
