-- Log to a file system: bids with the day and the minute that a folder is named by.
SELECT auction, bidder, price, date_time, extra,
    date_format(date_time, 'yyyy-MM-dd') AS day, date_format(date_time, 'HH:mm') AS minute
FROM bid
