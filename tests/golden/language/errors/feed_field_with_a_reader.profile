CREATE DOMAIN "D" AS
CLASS::A(channel.title:String FROM CSS 'h1');
