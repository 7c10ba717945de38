"""`setpredict site`: the page as a folder of files whose models run in the browser."""
