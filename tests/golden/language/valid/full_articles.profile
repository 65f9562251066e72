CREATE DOMAIN "News" AS CLASS::RSS(channel.item.title:String, channel.item.link:URL);
CREATE SOURCE "paper" OF RSS AT 'https://paper.example/feed' full articles ROBOTS OBEY;
WATCH 'https://blog.example/feed' FULL ARTICLES TELL LOG 'blog';
