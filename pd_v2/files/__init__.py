"""Files that programs are given: archives, images, text, and limits on their size."""
