"""What every package uses: files, paths, threads, random numbers, errors."""
