CREATE DOMAIN "D" AS
CLASS::A(channel.title:String, Channel.Title:URL);
